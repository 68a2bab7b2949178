"""Truth values: And, Or, Xor, Not, Where, and comparisons that are negated."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto

from ...core import EXACT, Build, Op, RulePass, Value, require, rule, stretches_to
from ..support.constant_operands import require_no_stretch
from ..support.dtypes import FLOATS
from ..support.operand_queries import is_integer, uniform
from .ort_kernels import MOST_FILLED, ZEROS

NEGATED = {
    "Less": "GreaterOrEqual",
    "LessOrEqual": "Greater",
    "Greater": "LessOrEqual",
    "GreaterOrEqual": "Less",
}


OF_THE_TYPE = ("BitwiseXor", "Sub", "Xor")  # of their operands; comparisons give truths
HOLDS_OF_ITSELF = ("Equal", "GreaterOrEqual", "LessOrEqual")
OF_ITSELF = ("Greater", "Less", *HOLDS_OF_ITSELF, *OF_THE_TYPE)


@rule(lambda g, x: g.Not(g.Not(x)), shared=True, contract=EXACT)
def cancel_nots(g: Build, x: Value) -> Value:
    """Not(Not(x)) => x"""
    return x


@rule(lambda g, x: g.BitwiseNot(g.BitwiseNot(x)), shared=True, contract=EXACT)
def cancel_bitwise_nots(g: Build, x: Value) -> Value:
    """BitwiseNot(BitwiseNot(x)) => x"""
    return x


@rule(lambda g, x: g.one_of("And", "Or", "BitwiseAnd", "BitwiseOr")(x, x), contract=EXACT)
def drop_idempotent_logic(g: Build, x: Value) -> Value:
    """And(x, x), Or(x, x) => x"""
    return x


@rule(lambda g, x, c: g.Xor(x, g.const(c)), contract=EXACT)
def xor_true_to_not(g: Build, x: Value, c: Value) -> Value:
    """Xor(x, true) => Not(x)"""
    require(g.opset >= 7, "before opset 7 there are other rules of broadcasting")
    require_no_stretch(c, x)
    require(bool(uniform(c)), "xor false")
    return g.Not(x)


@rule(lambda g, x, c: g.Equal(x, g.const(c)), contract=EXACT)
def drop_comparison_of_truths(g: Build, x: Value, c: Value) -> Value:
    """Equal(x, true) => x, Equal(x, false) => Not(x)"""
    require(c.dtype == TensorProto.BOOL, "a comparison of numbers")
    require(g.opset >= 7 and not x.is_const, "two constants")
    require_no_stretch(c, x)
    return x if uniform(c) else g.Not(x)


@rule(lambda g, a, b: g.And(g.Not(a), g.Not(b)), contract=EXACT)
def merge_nots_in_and(g: Build, a: Value, b: Value) -> Value:
    """And(Not(a), Not(b)) => Not(Or(a, b))"""
    return g.Not(g.Or(a, b))


@rule(lambda g, a, b: g.Or(g.Not(a), g.Not(b)), contract=EXACT)
def merge_nots_in_or(g: Build, a: Value, b: Value) -> Value:
    """Or(Not(a), Not(b)) => Not(And(a, b))"""
    return g.Not(g.And(a, b))


@rule(lambda g, a, b: g.Xor(g.Not(a), g.Not(b)), contract=EXACT)
def cancel_nots_in_xor(g: Build, a: Value, b: Value) -> Value:
    """Xor(Not(a), Not(b)) => Xor(a, b)"""
    return g.Xor(a, b)


@rule(lambda g, a, b, op: g.Not(g.one_of(*NEGATED)(a, b) @ op), contract=EXACT)
def negate_comparison(g: Build, a: Value, b: Value, op: Op) -> Value:
    """Not(Less(a, b)) => GreaterOrEqual(a, b), of integers, and all the like"""
    require(is_integer(a.dtype), "with a NaN neither holds")
    require(g.opset >= 12, "onnxruntime has LessOrEqual of integers since opset 12")
    turned: Value = getattr(g, NEGATED[op.type])(a, b)
    return turned


@rule(lambda g, x, op: g.one_of(*OF_ITSELF)(x, x) @ op, contract=EXACT)
def fold_comparison_with_itself(g: Build, x: Value, op: Op) -> Value:
    """Equal(x, x), Less(x, x), Xor(x, x), Sub(x, x) and the like of integers or truths => a constant"""
    require(is_integer(x.dtype) or x.dtype == TensorProto.BOOL, "with a NaN it is something else")
    require(prod(x.static_shape) <= MOST_FILLED, "too large to be written down")
    number = np.full(x.static_shape, op.type in HOLDS_OF_ITSELF)
    return g.const(number, like=x) if op.type in OF_THE_TYPE else g.const(number)


@rule(lambda g, c, a, b: g.Where(g.Not(c), a, b), contract=EXACT)
def turn_where(g: Build, c: Value, a: Value, b: Value) -> Value:
    """Where(Not(c), a, b) => Where(c, b, a), of anything but floats"""
    require(a.dtype not in FLOATS, "it may change the sign of a zero")
    return g.Where(c, b, a)


# onnxruntime gives 0 for a -0 that the condition chooses, but -0 for one that it does not.
@rule(lambda g, c, a, b: g.Where(g.Not(c), a, b), contract=ZEROS, fragile=(0.0,))
def turn_where_of_floats(g: Build, c: Value, a: Value, b: Value) -> Value:
    """Where(Not(c), a, b) => Where(c, b, a)"""
    return g.Where(c, b, a)


@rule(lambda g, c, a, b: g.Where(c, g.const(a), g.const(b)), contract=EXACT)
def where_to_truth(g: Build, c: Value, a: Value, b: Value) -> Value:
    """Where(c, true, false) => c, Where(c, false, true) => Not(c)"""
    require(a.dtype == TensorProto.BOOL, "a choice of numbers")
    require_no_stretch(a, c)
    require_no_stretch(b, c)
    chosen, other = bool(uniform(a)), bool(uniform(b))
    require(chosen != other, "always the same")
    return c if chosen else g.Not(c)


@rule(lambda g, c, a, b, other: g.Where(c, a, g.Where(c, b, other)), contract=EXACT)
def merge_wheres_if_false(g: Build, c: Value, a: Value, b: Value, other: Value) -> Value:
    """Where(c, a, Where(c, b, d)) => Where(c, a, d)"""
    require_idle(b, a, c, other)
    return g.Where(c, a, other)


@rule(lambda g, c, a, b, other: g.Where(c, g.Where(c, a, b), other), contract=EXACT)
def merge_wheres_if_true(g: Build, c: Value, a: Value, b: Value, other: Value) -> Value:
    """Where(c, Where(c, a, b), d) => Where(c, a, d)"""
    require_idle(b, a, c, other)
    return g.Where(c, a, other)


def require_idle(gone: Value, *kept: Value) -> None:
    """What is never chosen must not decide the shape: one of those that stay has to cover it."""
    require(any(stretches_to(gone.shape, k.shape) for k in kept), f"{gone.name} may stretch the result")


MERGE_LOGIC = RulePass(
    "merge-logic",
    (
        cancel_nots,
        cancel_bitwise_nots,
        drop_idempotent_logic,
        xor_true_to_not,
        drop_comparison_of_truths,
        merge_nots_in_and,
        merge_nots_in_or,
        cancel_nots_in_xor,
        negate_comparison,
        fold_comparison_with_itself,
        turn_where,
        turn_where_of_floats,
        where_to_truth,
        merge_wheres_if_false,
        merge_wheres_if_true,
    ),
)
