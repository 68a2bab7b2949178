"""Beginning anew with what is known of values, where inference may have learned it of others."""

from __future__ import annotations

from collections.abc import Collection

import onnx

from ..ir.graph import Graph
from ..ir.values import Value
from .importer import declare_input, typed


def infer_anew(graph: Graph, declared: Collection[Value]) -> None:
    """Forget what was inferred in `graph` and the graphs inside it; what the file says of `declared` values stays."""
    values = graph.declared.values
    values[:] = [(v if v is None or v in declared else Value(v.name), info) for v, info in values]
    for g in graph.with_subgraphs():
        for op in g.ops():
            op.inferred_at = -1
            for v in op.outputs:
                if v.tensor is None:
                    v.forget()
        if g is not graph:
            _declare_inputs(g)
        infos = [*zip(g.outputs, g.declared.outputs, strict=True), *g.declared.values]
        for v, info in infos:
            if v is not None and v.tensor is None:
                typed(v, onnx.ValueInfoProto.FromString(info).type)
    graph.shared.facts += 1
    graph.changed()


def _declare_inputs(graph: Graph) -> None:
    for v, info in graph.declared.inputs:
        if v.tensor is None:
            v.forget()
            declare_input(v, onnx.ValueInfoProto.FromString(info).type, graph.shared)
