"""What numbers a value can hold, read off the ops that make it."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

from ...core import Op, Value, require
from ..support.dtypes import FLOATS
from ..support.operand_queries import is_integer, known_number
from .clamps import CLAMPS, Clamp, known_clamp

DEEPEST = 6  # ops looked at on the way up
SMALL = 1024  # elements of a constant that is read


class Range(NamedTuple):
    """Every element is NaN or lies between the two; a zero at an end may have either sign."""

    low: float = -inf
    high: float = inf


ABOVE_ONE = 1.01  # onnxruntime's Sigmoid of some 17.5 is the float after 1; a Softmax may round up as well
FIXED = {
    "Exp": Range(0.0),
    "HardSigmoid": Range(0.0, 1.0),
    "Sigmoid": Range(0.0, ABOVE_ONE),
    "Softmax": Range(0.0, ABOVE_ONE),
    "Softplus": Range(0.0),
    "Sqrt": Range(0.0),
}
NORMS = frozenset({"ReduceL1", "ReduceL2", "ReduceSumSquare"})
# Results are elements of the first input.
MOVED = frozenset({
    "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
})  # fmt: skip


def range_of(value: Value, depth: int = DEEPEST) -> Range:
    """The range that the ops which make `value` leave; that of its type where they do not tell. O(1).

    Types are not worked out for it: a type that nobody has asked for yet counts as unknown.
    """
    if value.tensor is not None:
        return _of_constant(value)
    op = value.producer
    first = op.input(0) if op is not None else None
    if op is None or first is None or op.domain or not depth:
        return _of_type(value)
    if op.type in FIXED:
        return FIXED[op.type]
    if op.type in MOVED:
        return range_of(first, depth - 1)
    if op.type in CLAMPS:  # of integers too
        clamp = known_clamp(op)
        return bounded(range_of(clamp[0], depth - 1), clamp[1]) if clamp is not None else _of_type(value)
    # Of integers nothing more is known: they wrap around.
    found = _of_floats(op, first, depth)
    return found if found != Range() and value.known_dtype in FLOATS else _of_type(value)


def require_not_negative(value: Value) -> None:
    """Decline unless every element is NaN, a zero, or above it."""
    require(range_of(value).low >= 0, f"{value.name} may be negative")


def _of_type(value: Value) -> Range:
    dtype, _ = value.stated
    if is_integer(dtype):
        limits = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
        return Range(limits.min, limits.max)
    return Range(0, 1) if dtype == TensorProto.BOOL else Range()


def _of_constant(value: Value) -> Range:
    if value.tensor is None or not 0 < value.tensor.size <= SMALL or value.known_dtype not in FLOATS:
        return _of_type(value)
    numbers = value.const.astype(np.float64)
    return Range(float(numbers.min()), float(numbers.max())) if not np.isnan(numbers).any() else Range()


def _of_floats(op: Op, first: Value, depth: int) -> Range:
    """Of an op with floating-point results."""
    if op.type == "Abs" or op.type in NORMS or (op.type == "Pow" and _is_even(op.input(1))):
        return Range(0.0)
    if op.type in {"Add", "Mul"} and len(op.inputs) == 2:
        return _of_pair(op, depth)
    if op.type in {"AveragePool", "Cast", "GlobalAveragePool", "ReduceMean", "ReduceSum"}:
        return Range(0.0) if range_of(first, depth - 1).low >= 0 else Range()
    return Range()


def bounded(found: Range, bounds: Clamp) -> Range:
    """The range of what is clamped, from the range of what is given."""
    return Range(float(bounds.of(found.low)), float(bounds.of(found.high)))


def _of_pair(op: Op, depth: int) -> Range:
    a, b = op.inputs
    if a is None or b is None:
        return Range()
    if op.type == "Mul" and a is b:
        return Range(0.0)
    one = range_of(a, depth // 2)
    if one.low < 0:
        return Range()
    other = range_of(b, depth // 2)
    if other.low < 0:
        return Range()
    return Range(max(one.low, other.low) if op.type == "Add" else 0.0)


def _is_even(exponent: Value | None) -> bool:
    number = known_number(exponent)
    return number is not None and number % 2 == 0
