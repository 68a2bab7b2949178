"""Clamps between two bounds: Relu, Clip, and Max or Min with one number."""

from __future__ import annotations

from math import inf, isnan
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

from ...core import Build, Op, Value, require
from ...core.ir.dtypes import CPU_FLOATS
from ..support.operand_queries import (
    VARIADIC_BROADCASTING_OPSET,
    is_integer_dtype,
    known_scalar,
    require_numpy_broadcasting,
)
from .ort_kernels import require_ort_kernel

CLAMPS = ("Relu", "Clip", "Max", "Min")


class Clamp(NamedTuple):
    """min(max(x, low), high), in this order; NaN stays NaN, and where x equals a bound it stays x."""

    low: float = -inf
    high: float = inf

    def apply(self, x: float) -> float:
        """The clamped number."""
        return min(max(x, self.low), self.high)  # of equals Python takes the first

    def compose(self, first: Clamp) -> Clamp:
        """The composition of `first` and then this clamp."""
        return Clamp(self.apply(first.apply(-inf)), self.apply(first.apply(inf)))


def known_clamp(op: Op) -> tuple[Value, Clamp] | None:
    """The operand and the bounds of a clamp; None where the op is not a clamp or the bounds are not constant."""
    x = op.input(0)
    if op.domain or x is None:
        return None
    if op.type == "Relu":
        return x, Clamp(low=0.0)
    if op.type == "Clip":
        return _clamp_of_clip(op, x)
    return _clamp_of_max_min(op) if op.type in {"Max", "Min"} and len(op.inputs) == 2 else None


def type_limits(dtype: int) -> Clamp | None:
    """The bounds of a Clip that has none (operator Clip: numeric_limits), infinity left out; None for other types."""
    if not is_integer_dtype(dtype) and dtype not in CPU_FLOATS:
        return None
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if is_integer_dtype(dtype):
        return Clamp(np.iinfo(kind).min, np.iinfo(kind).max)
    return Clamp(float(np.finfo(kind).min), float(np.finfo(kind).max))


def _clamp_of_clip(op: Op, x: Value) -> tuple[Value, Clamp] | None:
    widest = type_limits(x.known_dtype)
    if widest is None or op.version < 6:
        return None
    if op.version < 11:  # the bounds are attributes; their defaults are those of float for all types
        known = x.known_dtype == TensorProto.FLOAT
        return (x, _attribute_bounds(op.attr("min"), op.attr("max"), widest)) if known else None
    if None in {op.input(1), op.input(2)} and _computes_in_float(x, op.version):
        return None
    low, high = _bound_value(op.input(1), widest.low), _bound_value(op.input(2), widest.high)
    return None if low is None or high is None else (x, Clamp(low, high))


def _computes_in_float(x: Value, version: int) -> bool:
    """Whether onnxruntime computes a Clip in float, which leaves infinity where a bound is left out."""
    return x.known_dtype == TensorProto.FLOAT16 and version < 12


def _attribute_bounds(low: float, high: float, widest: Clamp) -> Clamp:
    """The bounds in attributes, which are 32-bit floats."""
    return Clamp(max(float(np.float32(low)), widest.low), min(float(np.float32(high)), widest.high))


def _bound_value(bound: Value | None, left_out: float) -> float | None:
    """The number in a constant of one element; None for anything else."""
    if bound is None:
        return left_out
    number: float | None = known_scalar(bound)
    return None if number is None or isnan(number) else number


def _clamp_of_max_min(op: Op) -> tuple[Value, Clamp] | None:
    """The clamp of a Max or Min of a value and one number, of any rank."""
    a, b = op.inputs
    if a is None or b is None or a.is_const == b.is_const:
        return None
    x, c = (b, a) if a.is_const else (a, b)
    number = _bound_value(c, 0.0)
    if number is None or (x.known_dtype not in CPU_FLOATS and not is_integer_dtype(x.known_dtype)):
        return None
    if op.type == "Max":
        return None if number == inf else (x, Clamp(low=number))
    return None if number == -inf else (x, Clamp(high=number))


def build_clamp(g: Build, x: Value, clamp: Clamp) -> Value:
    """The op that clamps `x`, Relu where it is one; x itself where the bounds are those of its type."""
    widest = type_limits(x.dtype)
    require(widest is not None, "no clamp is known for this type")
    assert widest is not None
    if is_integer_dtype(x.dtype):
        clamp = Clamp(widest.apply(clamp.low), widest.apply(clamp.high))
        if clamp == widest:
            return x
    elif clamp.low == -inf or clamp.high == inf:
        return _build_one_sided_clamp(g, x, clamp)
    require_ort_kernel(g, "Clip", x)
    stated = _computes_in_float(x, g.opset)
    ends = [None if c == w and not stated else g.const(c, like=x) for c, w in zip(clamp, widest, strict=True)]
    return g.Clip(x, *ends)


def _build_one_sided_clamp(g: Build, x: Value, clamp: Clamp) -> Value:
    """Build a one-sided clamp of floats. A Clip would turn infinity into the greatest number."""
    if clamp == Clamp():
        return x
    if clamp == Clamp(low=0.0):
        require_ort_kernel(g, "Relu", x)
        return g.Relu(x)
    require_numpy_broadcasting(g.opset, VARIADIC_BROADCASTING_OPSET)
    op_type, bound = ("Max", clamp.low) if clamp.high == inf else ("Min", clamp.high)
    require_ort_kernel(g, op_type, x)
    return g.Max(x, g.const(bound, like=x)) if op_type == "Max" else g.Min(x, g.const(bound, like=x))
