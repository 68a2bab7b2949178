"""Models: a graph and the header of its file."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from onnx import helper

from ..ir.graph import Graph
from ..ir.tensor import Tensor
from ..ir.values import Value
from ..serialization.exporter import declare_new_initializers, written_initializers
from ..serialization.proto_queries import opset_versions


@dataclass(slots=True)
class Model:
    """A graph and the `header` of its file, which is the ModelProto without the graph."""

    header: onnx.ModelProto
    graph: Graph

    def written_initializers(self) -> list[tuple[Value, Tensor]]:
        """The initializers of the main graph, in file order."""
        return list(written_initializers(self.graph))


def export_header(model: Model) -> onnx.ModelProto:
    """The header for export, with imports of domains that rewrites added."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.header)
    imported = opset_versions(proto)
    used = {op.domain for g in model.graph.with_subgraphs() for op in g.ops() if op.domain not in imported}
    for domain, version in model.graph.opsets.items():
        if domain in used:
            proto.opset_import.append(helper.make_opsetid(domain, version))
    if proto.ir_version < 4:
        declare_new_initializers(model.graph)
    return proto
