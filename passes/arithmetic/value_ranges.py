"""Ranges of values, and clamps to a range."""

from __future__ import annotations

from math import inf, isnan
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

from ...core import Op, RewriteBuilder, Value, require
from ...core.ir.dtypes import CPU_FLOATS, FLOATS, INTEGERS
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ..support.operand_queries import (
    VARIADIC_BROADCASTING_OPSET,
    known,
    known_scalar,
    operand,
    require_numpy_broadcasting,
    require_ort_kernel,
    required_scalar,
    unless_declined,
)

CLAMPS = ("Relu", "Clip", "Max", "Min")


class ValueRange(NamedTuple):
    """The range of a value, whose elements are NaN or within, a zero at an end of either sign; or the range of a clamp.

    A clamp is min(max(x, low), high), in this order; NaN stays NaN, and where x equals a bound it stays x.
    """

    low: float = -inf
    high: float = inf

    def apply(self, x: float) -> float:
        """The clamped number."""
        return min(max(x, self.low), self.high)  # of equals Python takes the first

    def compose(self, first: ValueRange) -> ValueRange:
        """The range of values that are clamped to `first` and then to this."""
        return ValueRange(self.apply(first.apply(-inf)), self.apply(first.apply(inf)))


def clamp_of(op: Op) -> tuple[Value, ValueRange]:
    """The operand and the bounds of a clamp; declines other ops, and bounds that are not constant."""
    require(op.type in CLAMPS and not op.domain, f"{op.label} is not a clamp")
    if op.type == "Relu":
        return operand(op), ValueRange(low=0.0)
    if op.type == "Clip":
        return operand(op), _clip_bounds(op, operand(op))
    require(len(op.inputs) == 2, f"{op.label} does not have two inputs")
    a, b = operand(op), operand(op, 1)
    x, c = (b, a) if a.is_const else (a, b)
    number = _constant_bound(c)
    is_bound = not x.is_const and number != (inf if op.type == "Max" else -inf)
    require(is_bound and x.known_dtype in CPU_FLOATS | INTEGERS, f"{op.label} has no constant bounds")
    return x, ValueRange(low=number) if op.type == "Max" else ValueRange(high=number)


def type_limits(dtype: int) -> ValueRange | None:
    """The bounds of a Clip that has none (operator Clip: numeric_limits), infinity left out; None for other types."""
    if dtype not in INTEGERS and dtype not in CPU_FLOATS:
        return None
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if dtype in INTEGERS:
        return ValueRange(np.iinfo(kind).min, np.iinfo(kind).max)
    return ValueRange(float(np.finfo(kind).min), float(np.finfo(kind).max))


def _clip_bounds(op: Op, x: Value) -> ValueRange:
    widest = known(type_limits(x.known_dtype) if op.version >= 6 else None, f"{op.label} has no constant bounds")
    if op.version < 11:  # the bounds are attributes, whose defaults are the limits of float for all types
        require(x.known_dtype == TensorProto.FLOAT, f"{op.label} has no constant bounds")
        low, high = (float(np.float32(op.attr(name))) for name in ("min", "max"))
        return ValueRange(max(low, widest.low), min(high, widest.high))
    low, high = op.input(1), op.input(2)
    is_open = None in {low, high} and _computes_in_float(x, op.version)
    require(not is_open, f"{op.label} leaves infinity where a bound is left out")
    return ValueRange(
        widest.low if low is None else _constant_bound(low), widest.high if high is None else _constant_bound(high)
    )


def _computes_in_float(x: Value, version: int) -> bool:
    """Whether onnxruntime computes a Clip in float, which leaves infinity where a bound is left out."""
    return x.known_dtype == TensorProto.FLOAT16 and version < 12


def _constant_bound(bound: Value) -> float:
    """The number in a constant of one element; declines NaN."""
    number: float = required_scalar(bound)
    require(not isnan(number), f"{bound.name} is NaN")
    return number


def build_clamp(g: RewriteBuilder, x: Value, clamp: ValueRange) -> Value:
    """The op that clamps `x`, Relu where it is one; x itself where its type has these bounds."""
    widest = known(type_limits(x.dtype), "no clamp is known for this type")
    if x.dtype in INTEGERS:
        clamp = ValueRange(widest.apply(clamp.low), widest.apply(clamp.high))
        if clamp == widest:
            return x
    elif clamp.low == -inf or clamp.high == inf:
        return _build_one_sided_clamp(g, x, clamp)
    require_ort_kernel(g, "Clip", x)
    stated = _computes_in_float(x, g.opset)
    ends = [None if c == w and not stated else g.const(c, like=x) for c, w in zip(clamp, widest, strict=True)]
    return g.Clip(x, *ends)


def _build_one_sided_clamp(g: RewriteBuilder, x: Value, clamp: ValueRange) -> Value:
    """Build a one-sided clamp of floats. A Clip would turn infinity into the greatest number."""
    if clamp == ValueRange():
        return x
    if clamp == ValueRange(low=0.0):
        require_ort_kernel(g, "Relu", x)
        return g.Relu(x)
    require_numpy_broadcasting(g.opset, VARIADIC_BROADCASTING_OPSET)
    op_type, bound = ("Max", clamp.low) if clamp.high == inf else ("Min", clamp.high)
    require_ort_kernel(g, op_type, x)
    return getattr(g, op_type)(x, g.const(bound, like=x))


MAX_DEPTH = 6  # ops looked at on the way up
MAX_CONSTANT_ELEMENTS = 1024  # elements of a constant that is read
ROUNDED_UP_ONE = 1.01  # onnxruntime's Sigmoid of some 17.5 is the float after 1; a Softmax may round up as well
OUTPUT_RANGES = {
    **dict.fromkeys(("Exp", "Softplus", "Sqrt"), ValueRange(0.0)),
    **dict.fromkeys(("Sigmoid", "Softmax"), ValueRange(0.0, ROUNDED_UP_ONE)),
    "HardSigmoid": ValueRange(0.0, 1.0),
}
NON_NEGATIVE_REDUCTIONS = frozenset({"ReduceL1", "ReduceL2", "ReduceSumSquare"})
DATA_MOVEMENT_OPS = ops_with(Trait.MOVES_DATA)


def range_of(value: Value, depth: int = MAX_DEPTH) -> ValueRange:
    """The range of `value` by its producers; the range of its type where they do not determine one. O(1).

    Types are not worked out for it: a type that was not requested before counts as unknown.
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
        clamp = unless_declined(clamp_of, op)
        return clamp[1].compose(range_of(clamp[0], depth - 1)) if clamp is not None else _dtype_range(value)
    # Of integers nothing more is known: they wrap around.
    found = _float_range(op, first, depth)
    return found if found != ValueRange() and value.known_dtype in FLOATS else _dtype_range(value)


def require_not_negative(value: Value) -> None:
    """Decline unless every element is NaN, a zero, or above it."""
    require(range_of(value).low >= 0, f"{value.name} may be negative")


def _dtype_range(value: Value) -> ValueRange:
    dtype, _ = value.recorded_type
    limits = type_limits(dtype) if dtype in INTEGERS else None
    return limits or (ValueRange(0, 1) if dtype == TensorProto.BOOL else ValueRange())


def _constant_range(value: Value) -> ValueRange:
    if value.tensor is None or not 0 < value.tensor.size <= MAX_CONSTANT_ELEMENTS or value.known_dtype not in FLOATS:
        return _dtype_range(value)
    numbers = value.const.astype(np.float64)
    return ValueRange(float(numbers.min()), float(numbers.max())) if not np.isnan(numbers).any() else ValueRange()


def _float_range(op: Op, first: Value, depth: int) -> ValueRange:
    """The range of the result of an op on floats."""
    exponent = known_scalar(op.input(1)) if op.type == "Pow" else None
    if op.type == "Abs" or op.type in NON_NEGATIVE_REDUCTIONS or (exponent is not None and exponent % 2 == 0):
        return ValueRange(0.0)
    if op.type in {"Add", "Mul"} and len(op.inputs) == 2:
        if op.type == "Mul" and first is op.inputs[1]:
            return ValueRange(0.0)
        low, other = (range_of(v, depth // 2).low if v is not None else -inf for v in op.inputs)
        return ValueRange() if min(low, other) < 0 else ValueRange(max(low, other) if op.type == "Add" else 0.0)
    if op.type in {"AveragePool", "Cast", "GlobalAveragePool", "ReduceMean", "ReduceSum"}:
        return ValueRange(0.0) if range_of(first, depth - 1).low >= 0 else ValueRange()
    return ValueRange()
