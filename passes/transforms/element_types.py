"""Model transforms to other element types: integers and floats with fewer bits."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx
from onnx import TensorProto

from ...core import ChangeLog, Graph, Model, ModelError, Op, Value
from ...core.errors import UsageError
from ...core.ir.op_schemas import ONNX_DOMAIN

CAST_OPSET = 6  # before, Cast names its type in text


@dataclass(frozen=True, slots=True)
class Int32Inputs:
    """Makes inputs of int64 int32 ones, with a Cast behind each, for callers and runtimes without int64.

    Inputs with defaults, and those that are outputs, stay as they are.
    """

    name: str = "int32-inputs"

    def transform(self, model: Model) -> int:
        """Change the inputs of the main graph. O(inputs + their uses). Raises ModelError before opset 6."""
        return cast_inputs(model, TensorProto.INT64, TensorProto.INT32)


@dataclass(frozen=True, slots=True)
class ConvertFloats:
    """Converts single precision to half, where each op bears it; what the conversion costs is not verified.

    `passes quantize --scheme half` is the same with a budget of accuracy, measured on data.
    """

    weights_only: bool = field(default=False, metadata={"doc": "store weights in 16 bits, and compute as before"})
    keep_interface: bool = field(default=True, metadata={"doc": "whether inputs and outputs stay as they are"})
    name: str = "convert-to-half"

    def __post_init__(self) -> None:
        """Raise UsageError for options that contradict each other."""
        if self.weights_only and not self.keep_interface:
            raise UsageError("weights_only computes in single precision, and so keeps the interface")

    def transform(self, model: Model) -> int:
        """Convert the ops, or the weights alone; returns how many. O(ops + weights)."""
        from ..quantization.half import ConvertToHalf, StoreWeights  # noqa: PLC0415 - seldom needed

        changes = 0 if self.keep_interface else make_interface_half(model)
        convert = StoreWeights() if self.weights_only else ConvertToHalf()
        return changes + convert.run(model.graph, ChangeLog())


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
