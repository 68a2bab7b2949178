"""Operators that a change computes in 16-bit floats."""

from __future__ import annotations

from collections import Counter

import onnx

from ...ir.dtypes import FLOAT16_DTYPES
from ...serialization.proto_queries import all_nodes
from .float64_evaluation import EXACT


def mentions_16_bits(model: onnx.ModelProto) -> bool:
    """Whether an input, a constant or an attribute of a model is of a 16-bit float type. O(nodes)."""
    graph = model.graph
    types = {v.type.tensor_type.elem_type for v in graph.input} | {t.data_type for t in graph.initializer}
    for node in all_nodes(graph.node):
        types.update(a.t.data_type if a.type == onnx.AttributeProto.TENSOR else a.i for a in node.attribute)
    return not types.isdisjoint(FLOAT16_DTYPES)


def narrows(original: onnx.ModelProto, rewritten: onnx.ModelProto) -> bool:
    """Whether a rewritten region computes more in 16-bit floats than the original one.

    onnxruntime's CPU provider computes in 32 bits what a device with 16-bit arithmetic would overflow in, so that its
    results are the same. Unknown types count as wide.
    """
    return bool(_narrow_operators(rewritten) - _narrow_operators(original))


def _narrow_operators(model: onnx.ModelProto) -> Counter[str]:
    """How many nodes of each operator compute floats of 16 bits; not those that only move or convert elements."""
    inferred = onnx.shape_inference.infer_shapes(model)
    graph = inferred.graph
    types = {t.name: t.data_type for t in graph.initializer}
    types |= {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
    return Counter(
        node.op_type
        for node in graph.node
        if any(types.get(name) in FLOAT16_DTYPES for name in node.output) and node.op_type not in EXACT
    )
