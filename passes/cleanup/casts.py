"""Removal of casts that change no value, and merging of pairs of casts."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

from ...core import EXACT, Op, RewriteBuilder, Tensor, Value, require, rule

cast_rule = partial(rule, contract=EXACT, group="merge-casts")


class NumericFormat(NamedTuple):
    """The numbers of an element type: bits of magnitude held exactly, signs, bits of exponent (0: whole numbers)."""

    significand_bits: int
    signed: bool
    exponent_bits: int = 0

    @property
    def integer_bits(self) -> int:
        """The width of a whole number."""
        return self.significand_bits + self.signed


# The types that operator Cast converts by value; float8, four-bit types and strings have rules of their own.
NUMERIC_FORMATS: dict[int, NumericFormat] = {
    TensorProto.BOOL: NumericFormat(1, signed=False),
    TensorProto.INT8: NumericFormat(7, signed=True),
    TensorProto.INT16: NumericFormat(15, signed=True),
    TensorProto.INT32: NumericFormat(31, signed=True),
    TensorProto.INT64: NumericFormat(63, signed=True),
    TensorProto.UINT8: NumericFormat(8, signed=False),
    TensorProto.UINT16: NumericFormat(16, signed=False),
    TensorProto.UINT32: NumericFormat(32, signed=False),
    TensorProto.UINT64: NumericFormat(64, signed=False),
    TensorProto.FLOAT16: NumericFormat(11, signed=True, exponent_bits=5),
    TensorProto.BFLOAT16: NumericFormat(8, signed=True, exponent_bits=8),
    TensorProto.FLOAT: NumericFormat(24, signed=True, exponent_bits=8),
    TensorProto.DOUBLE: NumericFormat(53, signed=True, exponent_bits=11),
}
MOVEMENTS = ("Flatten", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
FILL_TYPES = NUMERIC_FORMATS.keys() - {TensorProto.BFLOAT16}
"""The types of ConstantOfShape at every opset."""
DEFAULT_FILL = Tensor.from_array(np.zeros(1, np.float32))  # operator ConstantOfShape
# onnxruntime compares these in ArgMax and ArgMin at every opset.
ARG_REDUCTION_TYPES = frozenset({TensorProto.FLOAT, TensorProto.INT32})


@cast_rule(lambda g, x, like, cast: g.CastLike(x, like) @ cast)
def cast_like_to_cast(g: RewriteBuilder, x: Value, like: Value, cast: Op) -> Value:
    """CastLike(x, y) => Cast(x, the type of y), or x where that is its own"""
    return x if x.dtype == like.dtype else g.Cast(x, to=like.dtype, **cast.attrs)


@cast_rule(lambda g, x, cast: g.one_of("BitCast", "Cast")(x) @ cast)
def drop_cast_to_same_type(g: RewriteBuilder, x: Value, cast: Op) -> Value:
    """Cast(x, the type of x) => x"""
    to = cast.attr("to")
    require(isinstance(to, int) and to == x.dtype, "the cast changes the type")
    return x


@cast_rule(lambda g, x, b, c: g.Cast(g.Cast(x, to=b), to=c), allow_other_uses=True)
def merge_casts(g: RewriteBuilder, x: Value, b: int, c: int) -> Value:
    """Cast(Cast(x, b), c) => Cast(x, c), or x, where b lets through all that c keeps"""
    require(equals_direct_cast(x.dtype, b, c), "the intermediate type changes values")
    return x if c == x.dtype else g.Cast(x, to=c)


@cast_rule(lambda g, x, b, c, move, rest: g.Cast(g.one_of(*MOVEMENTS)(g.Cast(x, to=b), *rest) @ move, to=c))
def merge_casts_around_movement(
    g: RewriteBuilder, x: Value, b: int, c: int, move: Op, rest: tuple[Value | None, ...]
) -> Value:
    """Cast(Reshape(Cast(x, b)), c) => Cast(Reshape(x), c), or Reshape(x), and so for all ops that only move elements"""
    require(equals_direct_cast(x.dtype, b, c), "the intermediate type changes values")
    moved = getattr(g, move.type)(x, *rest, **move.attrs)
    return moved if c == x.dtype else g.Cast(moved, to=c)


@cast_rule(lambda g, x, t, arg: g.one_of("ArgMax", "ArgMin")(g.Cast(x, to=t)) @ arg, allow_other_uses=True)
def drop_cast_before_arg_reduction(g: RewriteBuilder, x: Value, t: int, arg: Op) -> Value:
    """ArgMax(Cast(x)) => ArgMax(x), also ArgMin, where the cast keeps every value, and so order and ties"""
    require(x.dtype in ARG_REDUCTION_TYPES, "onnxruntime may not compare this type")
    keeps = t in NUMERIC_FORMATS and can_represent(NUMERIC_FORMATS[t], NUMERIC_FORMATS[x.dtype])
    require(keeps, "the cast may make distinct values equal")
    return getattr(g, arg.type)(x, **arg.attrs)


@cast_rule(lambda g, dims, filled, t: g.Cast(g.ConstantOfShape(dims) @ filled, to=t))
def cast_fill(g: RewriteBuilder, dims: Value, filled: Op, t: int) -> Value:
    """Cast(ConstantOfShape(s, value=c), t) => ConstantOfShape(s, value=Cast(c, t))"""
    given = filled.attr("value", DEFAULT_FILL)
    require({given.dtype, t} <= FILL_TYPES, "ConstantOfShape may not have this type")
    wanted = helper.tensor_dtype_to_np_dtype(t)
    if wanted.kind in "iu" and given.array.dtype.kind == "f":  # beyond their range, the result is undefined
        limits = np.iinfo(wanted)
        require(bool((limits.min <= given.array).all() and (given.array < limits.max).all()), "it is out of range")
    with np.errstate(over="ignore"):
        return g.ConstantOfShape(dims, value=Tensor.from_array(given.array.astype(wanted)))


def can_represent(b: NumericFormat, a: NumericFormat) -> bool:
    """Whether each value of type `a`, infinities and NaN among them, is one of type `b`."""
    return a.significand_bits <= b.significand_bits and a.signed <= b.signed and a.exponent_bits <= b.exponent_bits


def equals_direct_cast(first: int, between: int, last: int) -> bool:
    """Whether a cast from one element type to another and on to a third always equals the direct cast.

    Whole numbers lose their upper bits. The result of a cast from a float out of range to a whole number is undefined.
    """
    if not {first, between, last} <= NUMERIC_FORMATS.keys():
        return False
    a, b, c = (NUMERIC_FORMATS[dtype] for dtype in (first, between, last))
    if c.significand_bits == 1:  # to bool: a cast to a float, or to as many bits, keeps whether a whole number is zero
        wide = b.exponent_bits > 0 or b.integer_bits >= a.integer_bits
        return can_represent(b, a) or (not a.exponent_bits and wide)
    if not (a.exponent_bits or b.exponent_bits or c.exponent_bits):
        return c.integer_bits <= b.integer_bits or can_represent(b, a)
    return can_represent(b, a) and (c.exponent_bits > 0 or can_represent(c, a))
