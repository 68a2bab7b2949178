"""Half precision for the inputs and outputs of a model."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from ..io.model import Model
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.values import Value


def make_interface_half(model: Model) -> None:
    """Make inputs and outputs of single precision half ones, with a Cast behind or before each.

    Inputs with defaults stay as they are, and so do inputs that are outputs.
    """
    graph = model.graph
    kept = {v for v in graph.inputs if v in graph.input_defaults or v.is_const or graph.is_output(v)} | graph.pinned
    inputs = [v for v in graph.inputs if v not in kept and _is_single(v)]
    outputs = [v for v in dict.fromkeys(graph.outputs) if v.producer is not None and v not in kept and _is_single(v)]
    first, last = (end((op.order_key for op in graph.ops()), default=0) for end in (min, max))
    for v in inputs:
        _cast_input(graph, v, first)
    infos = list(zip(graph.outputs, graph.declared.outputs, strict=True))
    graph.declared.outputs[:] = [_as_half(info) if v in outputs else info for v, info in infos]
    for v in outputs:
        _cast_output(graph, v, last)
    graph.declared.inputs[:] = [(v, _as_half(info) if v in inputs else info) for v, info in graph.declared.inputs]
    graph.context.inference_epoch += 1


def _is_single(v: Value) -> bool:
    return v.type is None and v.known_dtype == TensorProto.FLOAT


def _as_half(info: bytes) -> bytes:
    proto = onnx.ValueInfoProto.FromString(info)
    proto.type.tensor_type.elem_type = TensorProto.FLOAT16
    return proto.SerializeToString(deterministic=True)


def _cast(graph: Graph, v: Value, to: int, made: Value, key: int) -> None:
    op = Op("Cast", "", "", {"to": to}, None)
    op.order_key = key
    graph.add_op(op, [v], [made])


def _cast_input(graph: Graph, v: Value, key: int) -> None:
    wide = Value(graph.fresh_name(v.name))
    shape = v.recorded_type[1]
    graph.replace_uses(v, wide)
    v.reset()
    v.merge_type(TensorProto.FLOAT16, shape)
    _cast(graph, v, TensorProto.FLOAT, wide, key)


def _cast_output(graph: Graph, v: Value, key: int) -> None:
    half = Value(graph.fresh_name(v.name))
    half.merge_type(TensorProto.FLOAT16, v.recorded_type[1])
    _cast(graph, v, TensorProto.FLOAT16, half, key)
    graph.replace_output(v, half)
    v.name, half.name = half.name, v.name
