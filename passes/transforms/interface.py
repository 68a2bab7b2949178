"""Transforms of the inputs and outputs of a model: which they are, their defaults and their element types."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import onnx
from msgspec import Struct
from onnx import TensorProto, helper

from ...core import ChangeLog, Graph, Model, ModelError, Op, Value
from ...core.errors import UsageError
from ...core.inference import forget_inferred_types
from ...core.io.graph_interface import default_values
from ...core.ir.graph import constant_bytes
from ...core.ir.op_schemas import ONNX_DOMAIN
from ...core.run.report import Hint, Report
from ...core.transform.extract import cut_inputs, drop_unused_inputs, keep_outputs, require_known, unused_inputs

if TYPE_CHECKING:
    from ...core.transform.batch import BatchPlan

CAST_OPSET = 6  # before, Cast names its type in text


@dataclass(frozen=True, slots=True)
class KeepOutputs:
    """Makes the values `names` the outputs, in that order; ops that they do not need are removed, inputs stay."""

    names: tuple[str, ...] = ()
    name: str = "keep-outputs"
    option: ClassVar[str] = "--outputs {names}"

    def transform(self, model: Model) -> int:
        """Cut the main graph. O(ops + values). Raises ModelError for a name that cannot be an output."""
        return keep_outputs(model, self.names)


@dataclass(frozen=True, slots=True)
class CutInputs:
    """Makes the values `names` the first inputs, in that order, in place of the ops that compute them.

    Inputs that the outputs still need follow; those that only removed ops read are dropped.
    """

    names: tuple[str, ...] = ()
    name: str = "cut-inputs"
    option: ClassVar[str] = "--cut-inputs {names}"

    def transform(self, model: Model) -> int:
        """Cut the main graph. O(ops + values). Raises ModelError for a name that cannot be an input."""
        return cut_inputs(model, self.names)


class DropUnusedInputs(Struct, frozen=True):
    """Drops the inputs that nothing reads."""

    name: str = "drop-unused-inputs"
    option: ClassVar[str] = "--drop-unused-inputs"

    def transform(self, model: Model) -> int:
        """Drop unused inputs of the main graph, after the ops that no output needs. O(ops + inputs)."""
        return drop_unused_inputs(model)

    def hint(self, model: Model, report: Report) -> Hint | None:  # noqa: ARG002 - as hints have
        """The hint for a result that does not read some inputs."""
        count = len(unused_inputs(model.graph))
        are = "input is" if count == 1 else "inputs are"
        return Hint(f"{count} {are} not read by any op") if count else None


class ChangeBatch(Struct, frozen=True):
    """Makes the batch of a model another number, or a symbol, after branches that are never taken are gone."""

    batch: int | str
    name: str = "batch"

    def transform(self, model: Model) -> int:
        """Convert the main graph; returns the number of inputs that change. Raises ModelError."""
        return len(self.convert(model).inputs)

    def convert(self, model: Model) -> BatchPlan:
        """Convert the main graph, and say how. Raises ModelError."""
        from ...core.transform.batch import change_batch  # noqa: PLC0415 - seldom needed
        from ..shapes.fold_shapes import FoldShapes  # noqa: PLC0415 - as above
        from ..structure.conditionals import InlineIf  # noqa: PLC0415 - as above

        FoldShapes().run(model.graph, ChangeLog())
        while InlineIf().run(model.graph, ChangeLog()):
            FoldShapes().run(model.graph, ChangeLog())
        return change_batch(model, self.batch)


class FreezeInitializers(Struct, frozen=True):
    """Makes initializers that a caller may override constants; they are no inputs any more.

    Exporters with `keep_initializers_as_inputs` list all weights as inputs, and nothing can be folded into them: models
    that list nearly all are frozen without this option.
    """

    name: str = "freeze-initializers"
    option: ClassVar[str] = "--freeze-initializers"

    def transform(self, model: Model) -> int:
        """Freeze the initializers of the main graph. O(inputs + initializers)."""
        graph = model.graph
        names = default_values(graph).keys()
        frozen = {v for v in graph.inputs if v.name in names}
        for v in frozen:
            if v in graph.input_defaults:
                v.set_constant(graph.input_defaults.pop(v))
                graph.initializers[v] = None
        graph.inputs = [v for v in graph.inputs if v not in frozen]
        graph.declared.inputs[:] = [(v, info) for v, info in graph.declared.inputs if v not in frozen]
        graph.context.weight_bytes = constant_bytes(graph)
        graph.mark_changed()
        return len(frozen)

    def hint(self, model: Model, report: Report) -> Hint | None:
        """The hint for a result in which some initializers are inputs, unless the caller keeps them."""
        count = 0 if report.options.get("freeze_initializers") is False else len(default_values(model.graph))
        are = "initializer is also an input, so it is" if count == 1 else "initializers are also inputs, so they are"
        return Hint(f"{count} {are} not folded") if count else None


@dataclass(frozen=True, slots=True)
class ExposeInitializers:
    """Makes initializers inputs as well, so that a caller may override them.

    `names` are the initializers of the main graph to expose, all if empty. Before IR version 4, where every initializer
    is listed as an input and none may be overridden, nothing changes. Sparse initializers stay constants.
    """

    names: tuple[str, ...] = ()
    name: str = "expose-initializers"

    def transform(self, model: Model) -> int:
        """Expose them, after the other inputs in the order of the file. O(initializers). Raises ModelError."""
        graph = model.graph
        if graph.context.initializers_are_inputs:
            return 0
        known = {v.name: v for v in graph.initializers if v.tensor is not None and v.producer is None}
        for name in self.names:
            require_known(name, known.keys() | {v.name for v in graph.input_defaults}, "initializer")
        exposed = [v for name, v in known.items() if not self.names or name in self.names]
        for v in exposed:
            tensor = v.tensor
            assert tensor is not None
            info = helper.make_tensor_value_info(v.name, tensor.dtype, tensor.dims)
            del graph.initializers[v]
            v.reset()
            v.merge_type(tensor.dtype, tensor.dims)
            graph.input_defaults[v] = tensor
            graph.declared.inputs.append((v, info.SerializeToString(deterministic=True)))
        graph.inputs += exposed
        forget_inferred_types(graph)
        return len(exposed)


class Int32Inputs(Struct, frozen=True):
    """Changes inputs of int64 to int32, with a Cast behind each, for callers and runtimes without int64.

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
    """Change float inputs and outputs to half precision, with a Cast behind or before each; return their number."""
    single, half = TensorProto.FLOAT, TensorProto.FLOAT16
    return cast_inputs(model, single, half) + cast_outputs(model, single, half)


def cast_inputs(model: Model, old: int, new: int, names: Collection[str] | None = None) -> int:
    """Give inputs of the element type `old` the type `new`, with a Cast behind each; returns how many.

    `names` are those that may change, all by default. Inputs with defaults stay as they are, and so do inputs that are
    outputs or have a name to keep. Raises ModelError before opset 6.
    """
    graph = model.graph
    kept = {v for v in graph.inputs if v in graph.input_defaults or v.is_const or graph.is_output(v)}
    kept |= graph.pinned | graph.sparse_initializers.keys()
    chosen = [v for v in graph.inputs if names is None or v.name in names]
    inputs = [v for v in chosen if v not in kept and _has_type(v, old)]
    _require_cast(graph, inputs)
    first = min((op.order_key for op in graph.ops()), default=0)
    for v in inputs:
        wide = Value(graph.fresh_name(v.name))
        shape = v.recorded_type[1]
        graph.replace_uses(v, wide)
        v.reset()
        v.merge_type(new, shape)
        _cast(graph, v, old, wide, first)
    graph.declared.inputs[:] = [(v, as_type(info, new) if v in inputs else info) for v, info in graph.declared.inputs]
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
    graph.declared.outputs[:] = [as_type(info, new) if v in outputs else info for v, info in infos]
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


def as_type(info: bytes, dtype: int) -> bytes:
    """A declaration with another element type."""
    proto = onnx.ValueInfoProto.FromString(info)
    proto.type.tensor_type.elem_type = dtype
    return proto.SerializeToString(deterministic=True)


def _cast(graph: Graph, v: Value, to: int, made: Value, key: int) -> None:
    op = Op("Cast", "", "", {"to": to}, None)
    op.order_key = key
    graph.add_op(op, [v], [made])
