"""What differs between ops that are matched and means nothing to what they compute: names, texts, places."""

from __future__ import annotations

import onnx

from ..ir.op import Op
from ..ir.values import Value
from .contents import Contents
from .difference import Change, GraphDifference
from .side import holds_constant


class Notes:
    """Takes down names and notes of a graph, each once."""

    def __init__(self, found: GraphDifference, contents: Contents) -> None:
        self.found, self.contents = found, contents
        self._seen: set[tuple[Value, Value]] = set()

    def op(self, p: Op, q: Op) -> None:
        """Names of two ops and of their outputs, doc strings, metadata."""
        if p.name != q.name:
            self.found.names.append(Change("node", p.name, q.name))
        for v, w in zip(p.outputs, q.outputs, strict=False):
            self.values(v, w)
        if p.loaded is not None and q.loaded is not None and p.loaded != q.loaded:
            ours, theirs = onnx.NodeProto.FromString(p.loaded), onnx.NodeProto.FromString(q.loaded)
            self._compare(f"doc string of {p.label}", ours.doc_string, theirs.doc_string)
            self._compare(f"metadata of {p.label}", *(metadata(m) for m in (ours, theirs)))

    def values(self, v: Value, w: Value) -> None:
        """The names of two values."""
        if v.name and w.name:
            self._compare_names("value", v.name, w.name)

    def constant(self, v: Value, w: Value) -> None:
        """The names of two constants in one place, and what holds them."""
        if (v, w) in self._seen:
            return
        self._seen.add((v, w))
        self._compare_names("constant", v.name, w.name)
        self._compare(f"constant {v.name}", self._holder(v), self._holder(w))

    def _holder(self, v: Value) -> str:
        return "Constant op" if v.producer is not None and holds_constant(v.producer) else "initializer"

    def _compare_names(self, what: str, before: str, after: str) -> None:
        if before != after:
            self.found.names.append(Change(what, before, after))

    def _compare(self, what: str, before: object, after: object) -> None:
        if before != after:
            self.found.notes.append(Change(what, before or None, after or None))


def metadata(message: onnx.NodeProto | onnx.ModelProto | onnx.GraphProto | onnx.FunctionProto) -> dict[str, str]:
    """The metadata of a message by key."""
    return {p.key: p.value for p in message.metadata_props}
