"""Removal of neutral operands and of repeated ops, and folding of absorbing operands.

`drop-neutral-operands`: Removal of neutral operands, such as 0 in a sum, and folding of absorbing operands, such as 0
in a product.
`drop-idempotent`: Removal of idempotent ops: rounding of integers, repeated Abs and Sign.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ...core import EXACT, Op, RewriteBuilder, Value, broadcasts_to, require, rule
from ...core.ir.dtypes import FLOATS, INTEGERS
from ..support.operand_queries import (
    MAX_FOLDED_ELEMENTS,
    NO_NEGATIVE_ZERO,
    Array,
    broadcast_extents,
    require_broadcastable_to,
    require_numpy_broadcasting,
    uniform_value,
)
from .value_ranges import DATA_MOVEMENT_OPS, range_of

INEXACT_POW_TYPES = frozenset({TensorProto.INT64})  # onnxruntime takes them through a double


NEUTRAL_ELEMENT_OPS = (
    "Add", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Sub", "Div", "Pow", "BitShift",
)  # fmt: skip


@rule(
    lambda g, x, c, op: g.one_of(*NEUTRAL_ELEMENT_OPS)(x, g.const(c)) @ op,
    contract=EXACT,
    group="drop-neutral-operands",
)
def drop_neutral_operand(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """Add(x, -0), Mul(x, 1), And(x, true), Or or Xor(x, false), Sub(x, 0), Div(x, 1), Pow(x, 1), ... => x"""
    number = neutral_element(op.type, c.dtype)
    require_uniform(op, x, c, number)
    if c.dtype in FLOATS and number == 0:
        signs = np.signbit(c.const.astype(np.float64))
        require(bool((signs == np.signbit(number)).all()), "the zero has the wrong sign")
    require(op.type != "Pow" or x.dtype not in INEXACT_POW_TYPES, "large integers are changed by the op")
    return x


@rule(
    lambda g, x, c, op: g.one_of("Add", "Sub")(x, g.const(c)) @ op,
    contract=NO_NEGATIVE_ZERO,
    critical_values=(0.0,),
    group="drop-neutral-operands",
)
def drop_added_zero(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """Add(x, 0), Sub(x, -0) => x"""
    require_uniform(op, x, c, 0)
    return x


@rule(
    lambda g, x, c, op: g.one_of("Mul", "And", "Or", "BitwiseAnd", "BitwiseOr")(x, g.const(c)) @ op,
    contract=EXACT,
    group="drop-neutral-operands",
)
def fold_absorbing_operand(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """And(x, false), Or(x, true), BitwiseAnd(x, 0), BitwiseOr(x, -1), Mul(integers, 0) => that constant"""
    require(c.dtype not in FLOATS, "x is a float: 0 times NaN or infinity is not 0")
    require_numpy_broadcasting(op.version)
    require(not x.is_const, "both operands are constant")
    number = 1 if op.type == "Or" else all_ones(c.dtype) if op.type == "BitwiseOr" else 0
    require(bool(uniform_value(c) == number), "the constant does not absorb x")
    if broadcasts_to(x.shape, c.shape):
        return c
    shape = broadcast_extents(x.static_shape, c.static_shape)
    require(prod(shape) <= MAX_FOLDED_ELEMENTS, "the constant would be too large")
    return g.const(np.full(shape, number), like=x)


def require_uniform(op: Op, x: Value, c: Value, number: Any) -> None:
    """Decline unless all elements of `c` are that number, and `c` does not change the shape of `x`.

    The first element is compared first: it rules out most operands before shapes are inferred.
    """
    require_numpy_broadcasting(op.version)
    require(not x.is_const, "both operands are constant")
    data: Array = c.const
    require(data.size > 0 and bool(data.reshape(-1)[0] == number), f"{c.name} is not {number}")
    require_broadcastable_to(c, x)
    require(bool((data == number).all()), f"{c.name} is not {number} throughout")


def neutral_element(op_type: str, dtype: int) -> Any:
    """The operand that changes nothing, not even the sign of a zero."""
    if op_type in {"Mul", "Div", "Pow", "And"}:
        return 1
    if op_type == "Add":
        return -0.0 if dtype in FLOATS else 0
    if op_type == "BitwiseAnd":
        return all_ones(dtype)
    return 0.0 if dtype in FLOATS else 0


def all_ones(dtype: int) -> int:
    """The integer whose bits are all set."""
    require(dtype in INTEGERS, "the operands are not integers")
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    return -1 if limits.min else int(limits.max)


INTEGER_VALUED_OPS = frozenset({"Ceil", "Floor", "Round", "Sign"})
MAX_DEPTH = 6  # ops looked at on the way up


@rule(lambda g, x: g.one_of("Ceil", "Floor", "Round")(x), contract=EXACT, group="drop-idempotent")
def drop_rounding_of_integers(g: RewriteBuilder, x: Value) -> Value:
    """Ceil(x), Floor(x), Round(x) => x, where x is known to be whole"""
    require(is_integer_valued(x), f"{x.name} may have a fraction")
    return x


@rule(
    lambda g, inner, outer: g.one_of("Abs", "Sign")(g.one_of("Abs", "Sign")(...) @ inner) @ outer,
    allow_other_uses=True,
    contract=EXACT,
    group="drop-idempotent",
)
def drop_repeated_op(g: RewriteBuilder, inner: Op, outer: Op) -> Value:
    """Abs(Abs(x)) => Abs(x), Sign(Sign(x)) => Sign(x)"""
    require(inner.type == outer.type, "the operators differ")
    return inner.outputs[0]


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT, group="drop-idempotent")
def drop_neg_before_abs(g: RewriteBuilder, x: Value) -> Value:
    """Abs(Neg(x)) => Abs(x)"""
    return g.Abs(x)


@rule(lambda g, x: g.Abs(x), contract=EXACT, group="drop-idempotent")
def drop_abs_of_positive(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x, where x is known to be above 0, or an integer that is not negative"""
    low = range_of(x).low
    require(low > 0 or (low == 0 and x.dtype not in FLOATS), "it may be negative, or a zero that is")
    return x


@rule(lambda g, x: g.Abs(x), contract=NO_NEGATIVE_ZERO, critical_values=(0.0,), group="drop-idempotent")
def drop_abs_of_non_negative(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x, where x is known to be 0 or above"""
    require(range_of(x).low >= 0, "it may be negative")
    return x


def is_integer_valued(value: Value, depth: int = MAX_DEPTH) -> bool:
    """Whether all elements are known to be integers, infinite or NaN. O(1)."""
    op = value.producer
    if op is None or op.domain or not depth:
        return False
    if op.type in INTEGER_VALUED_OPS:
        return True
    first = op.input(0)
    if first is None:
        return False
    if op.type == "Cast":
        return first.known_dtype in INTEGERS or first.known_dtype == TensorProto.BOOL
    return (op.type in DATA_MOVEMENT_OPS or op.type in {"Abs", "Neg", "Relu"}) and is_integer_valued(first, depth - 1)
