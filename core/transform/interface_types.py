"""Other element types for the inputs and outputs of a model."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from ..errors import ModelError
from ..io.model import Model
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.op_schemas import ONNX_DOMAIN
from ..ir.values import Value

CAST_OPSET = 6  # before, Cast names its type in text


def make_interface_half(model: Model) -> int:
    """Make inputs and outputs of single precision half ones, with a Cast behind or before each; returns how many."""
    single, half = TensorProto.FLOAT, TensorProto.FLOAT16
    return cast_inputs(model, single, half) + cast_outputs(model, single, half)


def cast_inputs(model: Model, old: int, new: int) -> int:
    """Give inputs of the element type `old` the type `new`, with a Cast behind each; returns how many.

    Inputs with defaults stay as they are, and so do inputs that are outputs or have a name to keep. Raises ModelError
    before opset 6.
    """
    graph = model.graph
    kept = {v for v in graph.inputs if v in graph.input_defaults or v.is_const or graph.is_output(v)}
    kept |= graph.pinned | graph.sparse_initializers.keys()
    inputs = [v for v in graph.inputs if v not in kept and _has_type(v, old)]
    _require_cast(graph, inputs)
    first = min((op.order_key for op in graph.ops()), default=0)
    for v in inputs:
        wide = Value(graph.fresh_name(v.name))
        shape = v.recorded_type[1]
        graph.replace_uses(v, wide)
        v.reset()
        v.merge_type(new, shape)
        _cast(graph, v, old, wide, first)
    graph.declared.inputs[:] = [(v, _as_type(info, new) if v in inputs else info) for v, info in graph.declared.inputs]
    graph.context.inference_epoch += 1
    return len(inputs)


def cast_outputs(model: Model, old: int, new: int) -> int:
    """Give outputs of the element type `old` the type `new`, with a Cast before each; returns how many.

    Outputs that no op computes, or that have a name to keep inside, stay as they are. Raises ModelError before opset 6.
    """
    graph = model.graph
    computed = (v for v in dict.fromkeys(graph.outputs) if v.producer is not None and v not in graph.pinned)
    outputs = [v for v in computed if _has_type(v, old)]
    _require_cast(graph, outputs)
    last = max((op.order_key for op in graph.ops()), default=0)
    infos = zip(graph.outputs, graph.declared.outputs, strict=True)
    graph.declared.outputs[:] = [_as_type(info, new) if v in outputs else info for v, info in infos]
    for v in outputs:
        made = Value(graph.fresh_name(v.name))
        made.merge_type(new, v.recorded_type[1])
        _cast(graph, v, new, made, last)
        graph.replace_output(v, made)
        v.name, made.name = made.name, v.name
    graph.context.inference_epoch += 1
    return len(outputs)


def _require_cast(graph: Graph, values: list[Value]) -> None:
    if values and graph.opsets.get(ONNX_DOMAIN, 0) < CAST_OPSET:
        raise ModelError(f"another type for {values[0].name} needs a Cast of opset {CAST_OPSET}; `--opset` raises that")


def _has_type(v: Value, dtype: int) -> bool:
    return v.type is None and v.known_dtype == dtype


def _as_type(info: bytes, dtype: int) -> bytes:
    proto = onnx.ValueInfoProto.FromString(info)
    proto.type.tensor_type.elem_type = dtype
    return proto.SerializeToString(deterministic=True)


def _cast(graph: Graph, v: Value, to: int, made: Value, key: int) -> None:
    op = Op("Cast", "", "", {"to": to}, None)
    op.order_key = key
    graph.add_op(op, [v], [made])
