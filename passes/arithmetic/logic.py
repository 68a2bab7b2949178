"""Simplification of logic: And, Or, Xor, Not, Where and negated comparisons."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto

from ...core import EXACT, Op, RewriteBuilder, Value, broadcasts_to, by_dtype, require, rule
from ...core.ir.dtypes import DISCRETE_TYPES, INTEGERS
from ..support.operand_queries import (
    MAX_FOLDED_ELEMENTS,
    NO_NEGATIVE_ZERO,
    require_broadcastable_to,
    require_numpy_broadcasting,
    uniform_value,
)

INVERSE_COMPARISON = {
    "Less": "GreaterOrEqual", "LessOrEqual": "Greater", "Greater": "LessOrEqual", "GreaterOrEqual": "Less",
}  # fmt: skip

OPERAND_TYPED = ("BitwiseXor", "Sub", "Xor")  # of their operands; comparisons give truths
REFLEXIVE = ("Equal", "GreaterOrEqual", "LessOrEqual")
CONSTANT_ON_EQUAL_OPERANDS = ("Greater", "Less", *REFLEXIVE, *OPERAND_TYPED)


@rule(
    lambda g, x, inner, outer: g.one_of("Not", "BitwiseNot")(g.one_of("Not", "BitwiseNot")(x) @ inner) @ outer,
    allow_other_uses=True,
    contract=EXACT,
    group="merge-logic",
)
def cancel_nots(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """Not(Not(x)) => x, BitwiseNot(BitwiseNot(x)) => x"""
    require(inner.type == outer.type, "the operators differ")
    return x


@rule(lambda g, x: g.one_of("And", "Or", "BitwiseAnd", "BitwiseOr")(x, x), contract=EXACT, group="merge-logic")
def drop_idempotent_logic(g: RewriteBuilder, x: Value) -> Value:
    """And(x, x), Or(x, x) => x"""
    return x


@rule(lambda g, x, c, op: g.one_of("Equal", "Xor")(x, g.const(c)) @ op, contract=EXACT, group="merge-logic")
def replace_comparison_with_bool(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """Equal(x, true) => x, Equal(x, false) => Not(x), Xor(x, true) => Not(x)"""
    require(c.dtype == TensorProto.BOOL, "the operands are not booleans")
    require_numpy_broadcasting(g.opset)
    require(not x.is_const, "both operands are constant")
    require_broadcastable_to(c, x)
    number = bool(uniform_value(c))
    require(number or op.type == "Equal", "the constant is false")
    return x if number and op.type == "Equal" else g.Not(x)


@rule(lambda g, a, b, op: g.one_of("And", "Or", "Xor")(g.Not(a), g.Not(b)) @ op, contract=EXACT, group="merge-logic")
def merge_nots(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """And(Not(a), Not(b)) => Not(Or(a, b)), Or(Not(a), Not(b)) => Not(And(a, b)), Xor(Not(a), Not(b)) => Xor(a, b)"""
    if op.type == "Xor":
        return g.Xor(a, b)
    return g.Not(g.Or(a, b) if op.type == "And" else g.And(a, b))


@rule(lambda g, a, b, op: g.Not(g.one_of(*INVERSE_COMPARISON)(a, b) @ op), contract=EXACT, group="merge-logic")
def negate_comparison(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """Not(Less(a, b)) => GreaterOrEqual(a, b), of integers, and all the like"""
    require(a.dtype in INTEGERS, "neither comparison holds for NaN")
    require(g.opset >= 12, "onnxruntime has LessOrEqual for integers since opset 12")
    return getattr(g, INVERSE_COMPARISON[op.type])(a, b)


@rule(lambda g, x, op: g.one_of(*CONSTANT_ON_EQUAL_OPERANDS)(x, x) @ op, contract=EXACT, group="merge-logic")
def fold_comparison_with_itself(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Equal(x, x), Less(x, x), Xor(x, x), Sub(x, x) and the like of integers or truths => a constant"""
    require(x.dtype in INTEGERS or x.dtype == TensorProto.BOOL, "the result differs for NaN")
    require(prod(x.static_shape) <= MAX_FOLDED_ELEMENTS, "the constant would be too large")
    number = np.full(x.static_shape, op.type in REFLEXIVE)
    return g.const(number, like=x) if op.type in OPERAND_TYPED else g.const(number)


# onnxruntime returns 0 for a -0 of the first branch, but -0 for one of the second.
@rule(
    lambda g, c, a, b: g.Where(g.Not(c), a, b),
    contract=by_dtype(DISCRETE_TYPES, EXACT, otherwise=NO_NEGATIVE_ZERO),
    critical_values=(0.0,),
    group="merge-logic",
)
def drop_not_in_where(g: RewriteBuilder, c: Value, a: Value, b: Value) -> Value:
    """Where(Not(c), a, b) => Where(c, b, a)"""
    return g.Where(c, b, a)


@rule(lambda g, c, a, b: g.Where(c, g.const(a), g.const(b)), contract=EXACT, group="merge-logic")
def where_to_condition(g: RewriteBuilder, c: Value, a: Value, b: Value) -> Value:
    """Where(c, true, false) => c, Where(c, false, true) => Not(c)"""
    require(a.dtype == TensorProto.BOOL, "the branches are not booleans")
    require_broadcastable_to(a, c)
    require_broadcastable_to(b, c)
    chosen, other = bool(uniform_value(a)), bool(uniform_value(b))
    require(chosen != other, "both branches are the same constant")
    return c if chosen else g.Not(c)


@rule(
    lambda g, c, a, b, other: g.Where(c, a, g.Where(c, b, other)),
    lambda g, c, a, b, other: g.Where(c, g.Where(c, a, b), other),
    contract=EXACT,
    group="merge-logic",
)
def merge_wheres(g: RewriteBuilder, c: Value, a: Value, b: Value, other: Value) -> Value:
    """Where(c, a, Where(c, b, d)), Where(c, Where(c, a, b), d) => Where(c, a, d)"""
    unselected = any(broadcasts_to(b.shape, kept.shape) for kept in (a, c, other))
    require(unselected, f"{b.name} may stretch the result")
    return g.Where(c, a, other)
