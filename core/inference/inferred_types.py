"""Removal of inferred types, after a change on which they depend."""

from __future__ import annotations

import onnx

from ..ir.graph import Graph
from ..ir.op import NOT_INFERRED
from ..serialization.importer import declare_computed, declare_input


def forget_inferred_types(graph: Graph) -> None:
    """Leave only the declared types of computed values and inputs of bodies; others are inferred anew. O(values)."""
    for g in graph.with_subgraphs():
        for op in g.ops():
            op.inferred_epoch = NOT_INFERRED
            for v in op.outputs:
                if v.tensor is None:
                    v.reset()
        for v, info in g.declared.inputs if g is not graph else ():
            if v.tensor is None:
                v.reset()
                declare_input(v, onnx.ValueInfoProto.FromString(info).type, g.context)
        outputs = zip(g.outputs, g.declared.outputs, strict=True)
        for v, info in (*outputs, *g.declared.value_infos):
            if v is not None and v.producer is not None and v.tensor is None:
                declare_computed(v, onnx.ValueInfoProto.FromString(info).type, g.context)
    graph.context.inference_epoch += 1
    graph.mark_changed()
