"""Input specs of a model: types, shapes with shared symbols, and restrictions of extents and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from ..inference.input_queries import full_perm
from ..io.model import Model
from ..ir.dims import Dim
from ..ir.op import Op
from ..ir.tensor import KNOWN_DTYPES, Tensor
from ..ir.values import Value, declared_shape
from ..operators.declaration import Trait
from ..operators.table import ops_with
from ..ort.empty_tensors import has_nonempty_filters, supports_empty_tensors
from . import dim_expressions
from .decision_boundaries import NO_BOUNDARIES, DecisionBoundaries, decision_boundaries
from .input_roles import InputRole, control_values, dim_at, input_role, stable_input_shape
from .transitive_uses import MAX_FOLLOWED_VALUES, is_selection_only, transitive_uses

SAME_SHAPE_OPS = ops_with(Trait.SAME_SHAPE)
BROADCASTING_OPS = ops_with(Trait.BROADCASTING)
MAX_ALL_FOLLOWED = 400_000  # values that are followed from all inputs of a model
MAX_OPERANDS = 64  # of an op through which axes are tracked
ExtentRequirement = tuple[int, int]
"""An axis, and the extent that it must have; negative axes count from the end."""
Axes = tuple[int, ...]
"""The axis of the input for each axis of a value."""


def required_extents(value: Value, rank: int, most: int = MAX_FOLLOWED_VALUES) -> dict[int, int]:
    """The extents of `value`, of that rank, that its transitive uses require, by axis."""
    found: dict[int, int] = {}
    for use, axes in transitive_uses(value, tuple(range(rank)), _propagate_axes, most) if rank else ():
        is_sliced = len(use.value.known_shape or axes) != rank  # by a Scan
        requirements = None if use.op.domain or is_sliced else REQUIREMENTS.get(use.op.type)
        for axis, extent in requirements(use.op, use.index) if requirements is not None else ():
            if -rank <= axis < rank and extent > 0:
                found.setdefault(axes[axis], extent)
    return found


def _propagate_axes(op: Op, index: int, axes: Axes) -> Axes | None:
    """The axes after `op`; None if they are not tracked through it."""
    if op.domain or (index != 0 and op.type not in BROADCASTING_OPS) or len(op.inputs) > MAX_OPERANDS:
        return None
    if op.type in BROADCASTING_OPS and any(_rank(op, i) > len(axes) for i in range(len(op.inputs))):
        return None
    if op.type == "Transpose":
        perm = full_perm(op.attr("perm"), len(axes))
        return tuple(axes[p] for p in perm) if sorted(perm) == list(range(len(axes))) else None
    return axes if op.type in SAME_SHAPE_OPS or op.type in BROADCASTING_OPS else None


def _static_extent(op: Op, index: int, axis: int) -> int:
    """A fixed extent of another input; 0 where it is not known."""
    extent = dim_at(stable_input_shape(op, index), axis)
    return extent if isinstance(extent, int) else 0


def _rank(op: Op, index: int) -> int:
    return len(stable_input_shape(op, index) or ())


def _conv_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    if index == 0:
        axis, groups = (0, 1) if op.type == "ConvTranspose" else (1, int(op.attr("group", 1)))
        yield 1, _static_extent(op, 3 if op.type == "QLinearConv" else 1, axis) * groups


def _matmul_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    right = 3 if op.type == "QLinearMatMul" else 1
    if index == 0:
        yield -1, _static_extent(op, right, -2 if _rank(op, right) > 1 else 0)
    elif index == right:
        yield -2, _static_extent(op, 0, -1)


def _gemm_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    if index < 2:
        flips = [bool(op.attr("transA", 0)), bool(op.attr("transB", 0))]
        inner = [int(not flips[0]), int(flips[1])]  # the axis that is summed over, of each operand
        yield inner[index], _static_extent(op, 1 - index, inner[1 - index])


def _channel_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    if index == 0:
        yield 1, _static_extent(op, 1, 0)


def _trailing_axis_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    """Requirements by broadcasting over the last axes: the scale of a LayerNormalization, the operand of an Add."""
    other = 1 - index
    for axis in range(-_rank(op, other), 0) if index < 2 else ():
        extent = _static_extent(op, other, axis)
        yield axis, extent if extent > 1 else 0


def _recurrent_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    """X, W, R, B, sequence_lens, initial_h, initial_c (operators RNN, GRU, LSTM); layout 1 has the batch first."""
    state, batch = (0, 0) if op.attr("layout", 0) else (1, 1)
    if index == 0:
        yield 2, _static_extent(op, 1, 2)
        yield batch, _static_extent(op, 5, state)
    elif index in {5, 6}:
        yield 1 - state, _static_extent(op, 1, 0)
        yield 2, _static_extent(op, 2, 2)


REQUIREMENTS: dict[str, Callable[[Op, int], Iterator[ExtentRequirement]]] = {
    **dict.fromkeys(ops_with(Trait.CONVOLUTION), _conv_requirements),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul_requirements),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _channel_requirements),
    **dict.fromkeys(
        BROADCASTING_OPS | {"PRelu", "LayerNormalization", "RMSNormalization"}, _trailing_axis_requirements
    ),
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _recurrent_requirements),
    "Gemm": _gemm_requirements,
}


TENSOR, SEQUENCE, OPTIONAL = "tensor", "sequence", "optional"
GENERATABLE = frozenset({TENSOR, SEQUENCE, OPTIONAL})


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input: `shape` has numbers and symbols; an unnamed dim is a symbol of its own.

    `type_kind` is tensor, sequence or optional (of tensors), or describes another type; the shape of an input without
    declared rank is empty. `required_extents` are the extents that the weights determine, by axis; `boundaries` the
    decision boundaries. An input that `is_control` determines the time or memory of a run, or is divided, so it gets no
    extremes of its type; `is_size` excludes the latter. One that `is_selection_only` is never an operand of arithmetic;
    one that `may_be_empty` crashes no kernel without elements; one that `must_be_nonempty` would otherwise make the
    filter of a convolution empty.
    """

    name: str
    dtype: int
    shape: tuple[int | str, ...]
    role: InputRole
    default: Tensor | None = None
    type_kind: str = TENSOR
    is_ranked: bool = True
    required_extents: Mapping[int, int] = field(default_factory=dict[int, int])
    boundaries: DecisionBoundaries = NO_BOUNDARIES
    is_control: bool = False
    is_size: bool = False
    is_selection_only: bool = False
    may_be_empty: bool = False
    must_be_nonempty: bool = False

    def is_emptied_by(self, array: Any) -> bool:
        """Whether an array has an extent of 0 that the model does not declare."""
        stated = (*self.shape, *[None] * np.ndim(array))
        return any(size == 0 != wanted for size, wanted in zip(np.shape(array), stated, strict=False))

    def with_rank(self, rank: int) -> InputSpec:
        """The input with a rank and a new symbol for each dim."""
        return self.with_shape(tuple(_dim_or_symbol(None, self.name, axis) for axis in range(rank)))

    def with_shape(self, shape: tuple[int | str, ...]) -> InputSpec:
        """The input with another shape."""
        return replace(self, shape=shape, is_ranked=True)


def input_specs(model: Model) -> list[InputSpec]:
    """The inputs of a model, in order, overridable ones last."""
    graph = model.graph
    required = [v for v in graph.inputs if v not in graph.input_defaults]
    control, sizes = (control_values(graph, divisions=divisions) for divisions in (True, False))
    may_be_empty = supports_empty_tensors(graph)
    must_be_nonempty = not has_nonempty_filters(graph)
    most = min(MAX_FOLLOWED_VALUES, max(1, MAX_ALL_FOLLOWED // max(len(graph.inputs), 1)))
    found = ((v, _input_spec(v, graph.input_defaults.get(v), most)) for v in (*required, *graph.input_defaults))
    return [
        replace(
            i,
            is_control=v in control,
            is_size=v in sizes,
            may_be_empty=may_be_empty,
            must_be_nonempty=must_be_nonempty,
        )
        for v, i in found
    ]


def _input_spec(value: Value, default: Tensor | None, most: int) -> InputSpec:
    form, (dtype, shape) = TENSOR, value.recorded_type
    if value.type is not None:
        form, tensor = _element_type(value.type)
        dtype, shape = tensor.elem_type, declared_shape(tensor)
    if form in GENERATABLE and dtype not in KNOWN_DTYPES:
        form = f"{form} of an unknown type"
    symbolic = tuple(_dim_or_symbol(d, value.name, i) for i, d in enumerate(shape or ()))
    return InputSpec(
        value.name,
        dtype,
        symbolic,
        input_role(value, most),
        default,
        form,
        is_ranked=shape is not None,
        required_extents=required_extents(value, len(symbolic), most) if form == TENSOR and default is None else {},
        boundaries=decision_boundaries(value, most),
        is_selection_only=is_selection_only(value, most),
    )


def _dim_or_symbol(dim: Dim, name: str, axis: int) -> int | str:
    """A dim, with a symbol for an unnamed one. First dims count as the batch, so they share one symbol."""
    if isinstance(dim, int | str):
        return dim
    return f"{name}[{axis}]" if axis else "[0]"


def _element_type(proto: onnx.TypeProto) -> tuple[str, onnx.TypeProto.Tensor]:
    """The kind of a type, and its tensor type; an empty type if there is none."""
    kind = proto.WhichOneof("value")
    outer = {"sequence_type": SEQUENCE, "optional_type": OPTIONAL}.get(kind or "")
    if outer is None:
        return {"map_type": "map", "sparse_tensor_type": "sparse tensor"}.get(kind or "", "value of no stated type"), (
            onnx.TypeProto.Tensor()
        )
    inner = proto.sequence_type.elem_type if outer == SEQUENCE else proto.optional_type.elem_type
    if inner.HasField("tensor_type"):
        return outer, inner.tensor_type
    return f"{outer} of {_element_type(inner)[0]}s", onnx.TypeProto.Tensor()


def free_symbols(inputs: list[InputSpec]) -> list[str]:
    """The free symbols of all shapes, in order. `past + 1` is a name of its own unless `past` is a dim elsewhere."""
    symbolic = [d for i in inputs for d in i.shape if isinstance(d, str)]
    plain = {d for d in symbolic if dim_expressions.dim_symbols(d) == [d]}
    found: dict[str, None] = {}
    for d in symbolic:
        names = dim_expressions.dim_symbols(d)
        found.update(dict.fromkeys(names if plain.issuperset(names) else [d]))
    return list(found)
