"""Ops and their attributes as data, and their changes, with those of names and notes."""

from __future__ import annotations

from math import isfinite
from typing import Any, cast

import numpy as np
import onnx

from ...core.ir import op_schemas
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.tensor import Tensor
from ...core.ir.values import Value
from ...core.serialization.node_attributes import bare_node, non_default_attributes
from ...core.serialization.provenance import RULE_KEY
from .constant_numbering import constant_type
from .diff_result import Delta, GraphDifference, Node, Plain
from .indexed_graph import is_constant_op, op_count, output_mask, without_trailing_omitted

EncodedAttributes = dict[str, bytes]


def significant_attributes(op: Op, other_version: int) -> EncodedAttributes:
    """The attributes that are not at their default, serialized, without bodies.

    Those at a default that `other_version` of the opset does not share are included, such as `axis` of Softmax at 13.
    """
    ours, theirs = (op_schemas.encoded_defaults(op.type, op.domain, v) for v in (op.version, other_version))
    shifted = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    return {**{name: ours[name] for name in shifted}, **non_default_attributes(op, shifted)}


class AnnotationRecorder:
    """A recorder of the changed names and notes of a graph, each once."""

    def __init__(self, difference: GraphDifference) -> None:
        self.difference = difference
        self._seen: set[tuple[Value, Value]] = set()

    def add_op(self, p: Op, q: Op) -> None:
        """Names of two ops and of their outputs, doc strings, metadata."""
        self._add(self.difference.names, "node", p.name, q.name)
        for v, w in zip(p.outputs, q.outputs, strict=False):
            self.add_values(v, w)
        before, after = p.loaded_proto_bytes, q.loaded_proto_bytes
        if before is not None and after is not None and before != after:
            ours, theirs = onnx.NodeProto.FromString(before), onnx.NodeProto.FromString(after)
            notes = self.difference.notes
            self._add(notes, f"doc string of {p.label}", ours.doc_string or None, theirs.doc_string or None)
            self._add(notes, f"metadata of {p.label}", *(metadata_of(m) or None for m in (ours, theirs)))

    def add_values(self, v: Value, w: Value) -> None:
        """The names of two values."""
        if v.name and w.name:
            self._add(self.difference.names, "value", v.name, w.name)

    def add_constant(self, v: Value, w: Value) -> None:
        """The names of two constants at one position, and whether they are initializers."""
        if (v, w) in self._seen:
            return
        self._seen.add((v, w))
        self._add(self.difference.names, "constant", v.name, w.name)
        is_op = (x.producer is not None and is_constant_op(x.producer) for x in (v, w))
        self._add(self.difference.notes, f"constant {v.name}", *("Constant op" if o else "initializer" for o in is_op))

    def _add(self, into: list[Delta], what: str, before: Plain, after: Plain) -> None:
        if before != after:
            into.append(Delta(what, before, after))


def metadata_of(message: onnx.NodeProto | onnx.ModelProto | onnx.GraphProto | onnx.FunctionProto) -> dict[str, str]:
    """The metadata of a message by key."""
    return {p.key: p.value for p in message.metadata_props}


MAX_SHOWN_ELEMENTS = 16  # of a tensor
DEFAULT_SUFFIX = " (default)"


def node_data(op: Op) -> Node:
    """An op as data."""
    inputs = ["" if v is None else v.name for v in without_trailing_omitted(op.inputs)]
    outputs = [v.name for v in op.outputs[: len(output_mask(op))]]
    attributes = {name: plain_value(op.attrs[name]) for name in sorted(op.attrs)}
    return Node(op.type, op.domain, op.name, inputs, outputs, attributes, op_count(op))


def rule_of(op: Op) -> str | None:
    """The rule of passwright that made an op, if it says so."""
    return next((p.value for p in bare_node(op).metadata_props if p.key == RULE_KEY), op.by or None)


def attribute_changes(a: Op, b: Op) -> list[Delta]:
    """The attributes that differ, and the outputs if others are present."""
    ours, theirs = significant_attributes(a, b.version), significant_attributes(b, a.version)
    names = [name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)]
    changes = [Delta(name, _attribute_data(a, name), _attribute_data(b, name)) for name in names]
    bodies = [set(subgraphs_by_attribute(op)) for op in (a, b)]
    changes += [Delta(name, "a graph", None) for name in sorted(bodies[0] - bodies[1])]
    changes += [Delta(name, None, "a graph") for name in sorted(bodies[1] - bodies[0])]
    present = [output_mask(op) for op in (a, b)]
    if present[0] != present[1]:
        changes.append(Delta("outputs", *([v.name for v in op.outputs] for op in (a, b))))
    return changes


def subgraphs_by_attribute(op: Op) -> dict[str, Graph]:
    """The subgraphs of an op by attribute, numbered where one attribute holds several."""
    found: dict[str, Graph] = {}
    for name, held in sorted(op.attrs.items()) if op.subgraphs else ():
        if isinstance(held, Graph):
            found[name] = held
        elif isinstance(held, list):
            entries = cast("list[object]", held)
            found.update((f"{name}[{i}]", g) for i, g in enumerate(entries) if isinstance(g, Graph))
    return found


def _attribute_data(op: Op, name: str) -> Plain:
    """An attribute as data; if it is absent, its default, marked as such."""
    if name in op.attrs:
        return plain_value(op.attrs[name])
    default = op_schemas.attribute_default(op.type, op.domain, op.version, name)
    return None if default is None else f"{plain_value(default)}{DEFAULT_SUFFIX}"


def plain_value(value: Any) -> Plain:
    """An attribute's value as JSON has it."""
    if isinstance(value, list):
        return [plain_value(v) for v in cast("list[Any]", value)]
    if isinstance(value, float):
        return float(f"{value:.7g}") if isfinite(value) else str(value)  # the shortest text of a 32-bit float
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Tensor):
        kind = constant_type(value)
        elements = "" if value.size > MAX_SHOWN_ELEMENTS else ", ".join(map(str, np.ravel(value.array).tolist()))
        return f"{kind} {{{elements}}}" if value.size <= MAX_SHOWN_ELEMENTS else kind
    if isinstance(value, Graph):
        return "a graph"
    if isinstance(value, onnx.AttributeProto):
        return f"@{value.ref_attr_name}"
    return " ".join(str(value).split())
