"""Value ranges inferred from the producers of a value."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

from ...core import Op, Value, require
from ...core.ir.dtypes import FLOATS
from ...core.ir.traits import Trait, ops_with
from ..support.operand_queries import is_integer_dtype, known_scalar
from .clamps import CLAMPS, Clamp, known_clamp

MAX_DEPTH = 6  # ops looked at on the way up
MAX_CONSTANT_ELEMENTS = 1024  # elements of a constant that is read


class ValueRange(NamedTuple):
    """Every element is NaN or lies between the two; a zero at an end may have either sign."""

    low: float = -inf
    high: float = inf


ROUNDED_UP_ONE = 1.01  # onnxruntime's Sigmoid of some 17.5 is the float after 1; a Softmax may round up as well
OUTPUT_RANGES = {
    "Exp": ValueRange(0.0),
    "HardSigmoid": ValueRange(0.0, 1.0),
    "Sigmoid": ValueRange(0.0, ROUNDED_UP_ONE),
    "Softmax": ValueRange(0.0, ROUNDED_UP_ONE),
    "Softplus": ValueRange(0.0),
    "Sqrt": ValueRange(0.0),
}
NON_NEGATIVE_REDUCTIONS = frozenset({"ReduceL1", "ReduceL2", "ReduceSumSquare"})
DATA_MOVEMENT_OPS = ops_with(Trait.MOVES_DATA)


def range_of(value: Value, depth: int = MAX_DEPTH) -> ValueRange:
    """The range of `value` by its producers; that of its type where they do not determine one. O(1).

    Types are not worked out for it: a type that nobody has asked for yet counts as unknown.
    """
    if value.tensor is not None:
        return _constant_range(value)
    op = value.producer
    first = op.input(0) if op is not None else None
    if op is None or first is None or op.domain or not depth:
        return _dtype_range(value)
    if op.type in OUTPUT_RANGES:
        return OUTPUT_RANGES[op.type]
    if op.type in DATA_MOVEMENT_OPS:
        return range_of(first, depth - 1)
    if op.type in CLAMPS:  # of integers too
        clamp = known_clamp(op)
        return clamped_range(range_of(clamp[0], depth - 1), clamp[1]) if clamp is not None else _dtype_range(value)
    # Of integers nothing more is known: they wrap around.
    found = _float_range(op, first, depth)
    return found if found != ValueRange() and value.known_dtype in FLOATS else _dtype_range(value)


def require_not_negative(value: Value) -> None:
    """Decline unless every element is NaN, a zero, or above it."""
    require(range_of(value).low >= 0, f"{value.name} may be negative")


def _dtype_range(value: Value) -> ValueRange:
    dtype, _ = value.recorded_type
    if is_integer_dtype(dtype):
        limits = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
        return ValueRange(limits.min, limits.max)
    return ValueRange(0, 1) if dtype == TensorProto.BOOL else ValueRange()


def _constant_range(value: Value) -> ValueRange:
    if value.tensor is None or not 0 < value.tensor.size <= MAX_CONSTANT_ELEMENTS or value.known_dtype not in FLOATS:
        return _dtype_range(value)
    numbers = value.const.astype(np.float64)
    return ValueRange(float(numbers.min()), float(numbers.max())) if not np.isnan(numbers).any() else ValueRange()


def _float_range(op: Op, first: Value, depth: int) -> ValueRange:
    """The range of the result of an op on floats."""
    if op.type == "Abs" or op.type in NON_NEGATIVE_REDUCTIONS or (op.type == "Pow" and _is_even(op.input(1))):
        return ValueRange(0.0)
    if op.type in {"Add", "Mul"} and len(op.inputs) == 2:
        return _sum_or_product_range(op, depth)
    if op.type in {"AveragePool", "Cast", "GlobalAveragePool", "ReduceMean", "ReduceSum"}:
        return ValueRange(0.0) if range_of(first, depth - 1).low >= 0 else ValueRange()
    return ValueRange()


def clamped_range(found: ValueRange, bounds: Clamp) -> ValueRange:
    """The range of a clamped value."""
    return ValueRange(float(bounds.apply(found.low)), float(bounds.apply(found.high)))


def _sum_or_product_range(op: Op, depth: int) -> ValueRange:
    a, b = op.inputs
    if a is None or b is None:
        return ValueRange()
    if op.type == "Mul" and a is b:
        return ValueRange(0.0)
    one = range_of(a, depth // 2)
    if one.low < 0:
        return ValueRange()
    other = range_of(b, depth // 2)
    if other.low < 0:
        return ValueRange()
    return ValueRange(max(one.low, other.low) if op.type == "Add" else 0.0)


def _is_even(exponent: Value | None) -> bool:
    number = known_scalar(exponent)
    return number is not None and number % 2 == 0
