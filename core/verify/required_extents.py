"""Extents that the weights of a model decide: a Conv takes as many channels as its filters have."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ir.op import Op
from ..ir.values import Value

LOOKS_FAR_ENOUGH = 100  # values followed from an input before giving up
SAME_SHAPE = frozenset({
    "Identity", "Cast", "CastLike", "Dropout", "Clip", "Relu", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "Softmax",
    "LogSoftmax", "Elu", "Selu", "Gelu", "Neg", "Abs", "Exp", "Log", "Sqrt", "Erf", "Floor", "Ceil", "Round",
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "BatchNormalization", "InstanceNormalization",
    "LayerNormalization", "RMSNormalization",
})  # fmt: skip
BROADCASTS = frozenset({"Add", "Sub", "Mul", "Div"})
Demand = tuple[int, int]
"""An axis, and the extent that it must have; negative axes count from the end."""
Axes = tuple[int | None, ...]
"""Which axis of the input each axis of a value is."""


def decided_extents(value: Value, rank: int) -> dict[int, int]:
    """The extents of `value`, of that rank, that ops reading it have no choice about, by axis."""
    found: dict[int, int] = {}
    queue: list[tuple[Value, Axes]] = [(value, tuple(range(rank)))] if rank else []
    seen = {value}
    for v, axes in queue:
        for op in v.uses:
            for index in (i for i, other in enumerate(op.inputs) if other is v):
                for axis, extent in _demands(op, index):
                    origin = axes[axis] if -rank <= axis < rank else None
                    if origin is not None and extent > 0:
                        found.setdefault(origin, extent)
            if len(seen) < LOOKS_FAR_ENOUGH and op.outputs and op.outputs[0] not in seen:
                carried = _carried(op, v, axes)
                seen.add(op.outputs[0])
                queue += [(op.outputs[0], carried)] if carried else []
    return found


def _carried(op: Op, value: Value, axes: Axes) -> Axes | None:
    """Which axis is which after `op`; None where that is not followed."""
    if op.domain or (op.input(0) is not value and op.type not in BROADCASTS):
        return None
    if op.type in BROADCASTS and any(_rank(op, i) > len(axes) for i in range(2)):
        return None
    if op.type == "Transpose":
        perm = op.attr("perm") or range(len(axes) - 1, -1, -1)
        return tuple(axes[p] for p in perm) if sorted(perm) == list(range(len(axes))) else None
    return axes if op.type in SAME_SHAPE or op.type in BROADCASTS else None


def _demands(op: Op, index: int) -> Iterator[Demand]:
    """What `op` asks of its input at `index`, as far as its other inputs have fixed extents."""
    asks = ASKS.get(op.type)
    if asks is not None and not op.domain:
        yield from asks(op, index)


def _extent(op: Op, index: int, axis: int) -> int:
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


def _conv(op: Op, index: int) -> Iterator[Demand]:
    if index == 0:
        weight = 3 if op.type == "QLinearConv" else 1
        transposed = op.type == "ConvTranspose"
        yield 1, _extent(op, weight, 0) if transposed else _extent(op, weight, 1) * int(op.attr("group", 1))


def _matmul(op: Op, index: int) -> Iterator[Demand]:
    right = 3 if op.type == "QLinearMatMul" else 1
    if index == 0:
        yield -1, _extent(op, right, -2 if _rank(op, right) > 1 else 0)
    elif index == right:
        yield -2, _extent(op, 0, -1)


def _gemm(op: Op, index: int) -> Iterator[Demand]:
    if index < 2:
        flips = [bool(op.attr("transA", 0)), bool(op.attr("transB", 0))]
        inner = [int(not flips[0]), int(flips[1])]  # the axis that is summed over, of each operand
        yield inner[index], _extent(op, 1 - index, inner[1 - index])


def _channels(op: Op, index: int) -> Iterator[Demand]:
    if index == 0:
        yield 1, _extent(op, 1, 0)


def _last_axes(op: Op, index: int) -> Iterator[Demand]:
    """The scale of a LayerNormalization, or the other operand of an Add, stretches over the last axes."""
    other = 1 - index
    for axis in range(-_rank(op, other), 0) if index < 2 else ():
        extent = _extent(op, other, axis)
        yield axis, extent if extent > 1 else 0


def _recurrent(op: Op, index: int) -> Iterator[Demand]:
    """X, W, R, B, sequence_lens, initial_h, initial_c (operators RNN, GRU, LSTM); layout 1 has the batch first."""
    state, batch = (0, 0) if op.attr("layout", 0) else (1, 1)
    if index == 0:
        yield 2, _extent(op, 1, 2)
        yield batch, _extent(op, 5, state)
    elif index in {5, 6}:
        yield 1 - state, _extent(op, 1, 0)
        yield 2, _extent(op, 2, 2)


ASKS: dict[str, Callable[[Op, int], Iterator[Demand]]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "ConvInteger", "QLinearConv"), _conv),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _channels),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "Add", "Sub", "Mul", "Div"), _last_axes),
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _recurrent),
    "Gemm": _gemm,
}
