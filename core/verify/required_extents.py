"""Extents of inputs that the weights of a model determine, such as the channels of a Conv."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ir.op import Op
from ..ir.traits import Trait, ops_with
from ..ir.values import Value

MAX_FOLLOWED_VALUES = 100  # values followed from an input before giving up
SAME_SHAPE_OPS = ops_with(Trait.SAME_SHAPE)
BROADCASTING_OPS = ops_with(Trait.BROADCASTING)
ExtentRequirement = tuple[int, int]
"""An axis, and the extent that it must have; negative axes count from the end."""
Axes = tuple[int | None, ...]
"""The axis of the input for each axis of a value."""


def required_extents(value: Value, rank: int) -> dict[int, int]:
    """The extents of `value`, of that rank, that its transitive uses require, by axis."""
    found: dict[int, int] = {}
    queue: list[tuple[Value, Axes]] = [(value, tuple(range(rank)))] if rank else []
    seen = {value}
    for v, axes in queue:
        for op in v.consumers:
            for index in (i for i, other in enumerate(op.inputs) if other is v):
                requirements = REQUIREMENTS.get(op.type) if not op.domain else None
                for axis, extent in requirements(op, index) if requirements is not None else ():
                    origin = axes[axis] if -rank <= axis < rank else None
                    if origin is not None and extent > 0:
                        found.setdefault(origin, extent)
            if len(seen) < MAX_FOLLOWED_VALUES and op.outputs and op.outputs[0] not in seen:
                carried = _propagate_axes(op, v, axes)
                seen.add(op.outputs[0])
                queue += [(op.outputs[0], carried)] if carried else []
    return found


def _propagate_axes(op: Op, value: Value, axes: Axes) -> Axes | None:
    """The axes after `op`; None if they are not tracked through it."""
    if op.domain or (op.input(0) is not value and op.type not in BROADCASTING_OPS):
        return None
    if op.type in BROADCASTING_OPS and any(_rank(op, i) > len(axes) for i in range(len(op.inputs))):
        return None
    if op.type == "Transpose":
        perm = op.attr("perm") or range(len(axes) - 1, -1, -1)
        return tuple(axes[p] for p in perm) if sorted(perm) == list(range(len(axes))) else None
    return axes if op.type in SAME_SHAPE_OPS or op.type in BROADCASTING_OPS else None


def _static_extent(op: Op, index: int, axis: int) -> int:
    """A fixed extent of another input; 0 where it is not known."""
    value = op.input(index)
    shape = value.known_shape if value is not None else None
    if not shape or not -len(shape) <= axis < len(shape):
        return 0
    extent = shape[axis]
    return extent if isinstance(extent, int) else 0


def _rank(op: Op, index: int) -> int:
    value = op.input(index)
    return len(value.known_shape or ()) if value is not None else 0


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
