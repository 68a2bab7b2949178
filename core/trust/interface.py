"""The interface of a model: what no rewrite may change unless it is asked to.

It is taken when the model is loaded, and what would be written is held to it before every export.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import onnx

from ..errors import InterfaceError
from ..io.importer import SPELLINGS
from ..io.model import Model
from ..ir.graph import Graph
from .facts import GraphFacts, require_same_fields, require_same_texts


@dataclass(frozen=True, slots=True)
class Interface:
    """Inputs, outputs, defaults, texts, metadata and annotations as they were loaded.

    Ops are not in it: each knows the bytes it was loaded from. An op that a rewrite made is free, one that stands is
    not. Of subgraphs, those count that still stand; their inner names are their own.
    """

    header: bytes
    imports: Mapping[str, int]
    graphs: WeakKeyDictionary[Graph, GraphFacts]

    @classmethod
    def of(cls, model: Model) -> Interface:
        """What `model`, just loaded, has to keep. O(its graphs, their inputs, outputs and value infos)."""
        header = _without_imports(model.header).SerializeToString(deterministic=True)
        graphs = WeakKeyDictionary((g, GraphFacts.of(g)) for g in model.graph.with_subgraphs())
        return cls(header, _imports(model.header), graphs)

    def require(self, model: Model) -> None:
        """Raise InterfaceError, naming what changed, unless `model` keeps all of it. O(ops).

        `model` is the very one that this was taken from: another load of the same file is refused.
        """
        self._require_header(model)
        if model.graph not in self.graphs:
            raise InterfaceError("the model has another graph than the one whose interface it has to keep")
        for g in model.graph.with_subgraphs():
            if g in self.graphs:
                self.graphs[g].require(g)
            for op in g.ops():
                if op.loaded is not None:
                    require_same_texts(op)

    def _require_header(self, model: Model) -> None:
        for now in (_imports(model.header), model.graph.opsets):
            for domain, version in self.imports.items():
                if now.get(domain) != version:
                    found = f"opset {now[domain]}" if domain in now else "none"
                    raise InterfaceError(
                        f"the model imported opset {version} of {domain or 'ai.onnx'}, and now {found}"
                    )
        before, after = onnx.ModelProto.FromString(self.header), _without_imports(model.header)
        require_same_fields(before, after, "the model")


def _imports(header: onnx.ModelProto) -> dict[str, int]:
    return {SPELLINGS.get(e.domain, e.domain): e.version for e in header.opset_import}


def _without_imports(header: onnx.ModelProto) -> onnx.ModelProto:
    """The header but for the opset imports, which may grow."""
    rest = onnx.ModelProto()
    rest.CopyFrom(header)
    rest.ClearField("opset_import")
    return rest
