"""Fingerprints of generated models, to skip similar ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ..case import Case
from .model_builder import Array


def structure_fingerprint(case: Case) -> Hashable:
    """Operators, types and classes of dims, independent of the model around the pattern."""
    graph = case.model.graph
    types = [i.type.tensor_type for i in graph.input]
    sizes = {d.dim_value for t in types for d in t.shape.dim if d.dim_value > 1}
    return (
        len(sizes) > 1,
        tuple((t.elem_type, tuple(map(_dim_class, t.shape.dim))) for t in types if t.elem_type != TensorProto.BOOL),
        tuple((t.data_type, tuple(min(d, 2) for d in t.dims)) for t in graph.initializer),
        tuple(node.op_type for node in _nodes(graph) if node.op_type != "Identity"),
    )


def fingerprint(case: Case) -> Hashable:
    """The structure of a model, with attributes, summaries of constants, and traits."""
    graph = case.model.graph
    attributes = (a.SerializeToString(deterministic=True) for node in _nodes(graph) for a in node.attribute)
    constants = (_constant_summary(numpy_helper.to_array(t)) for t in graph.initializer)
    return structure_fingerprint(case), case.traits, case.no_fire_reason, tuple(attributes), tuple(constants)


def _dim_class(dim: onnx.TensorShapeProto.Dimension) -> int:
    """0, 1 or 2 for more; symbolic dims count as more."""
    return min(dim.dim_value, 2) if dim.HasField("dim_value") else 2


def _constant_summary(array: Array) -> Hashable:
    """Whether all elements are equal, and the sign of the first one."""
    if array.size == 0:
        return None
    first = array.reshape(-1)[0]
    sign = int(np.sign(np.nan_to_num(first))) if array.dtype.kind in "if" else 0
    return bool((array == first).all()), sign


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes, with those of one branch instead of an If."""
    for node in graph.node:
        bodies = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        yield from _nodes(bodies[0]) if bodies else (node,)
