"""Neg meets Add, Sub, Mul, Div and itself."""

from __future__ import annotations

import numpy as np

from ...core import EXACT, Build, Op, RulePass, Value, require, rule
from ..support.constant_operands import constant_binary, downcast_at_full_precision, require_bounded_growth, upcast
from ..support.dtypes import FLOATS
from ..support.operand_queries import Inputs
from .neutral_elements import require_uniform
from .ort_kernels import NO_NEGATIVE_ZERO, require_ort_kernel


@rule(lambda g, x: g.Neg(g.Neg(x)), shared=True, contract=EXACT)
def cancel_negations(g: Build, x: Value) -> Value:
    """Neg(Neg(x)) => x"""
    return x


@rule(lambda g, a, b: g.Add(a, g.Neg(b)), contract=EXACT)
def add_negation_to_sub(g: Build, a: Value, b: Value) -> Value:
    """Add(a, Neg(b)) => Sub(a, b)"""
    return g.Sub(a, b)


@rule(lambda g, a, b: g.Sub(a, g.Neg(b)), contract=EXACT)
def sub_negation_to_add(g: Build, a: Value, b: Value) -> Value:
    """Sub(a, Neg(b)) => Add(a, b)"""
    return g.Add(a, b)


@rule(lambda g, x, c, op: g.Sub(g.Neg(x), g.const(c)) @ op, contract=EXACT)
def sub_from_negation(g: Build, x: Value, c: Value, op: Op) -> Value:
    """-x - c => -c - x"""
    return g.Sub(negate_constant(g, op, c), x)


@rule(lambda g, a, b: g.Mul(g.Neg(a), g.Neg(b)), contract=EXACT)
def cancel_negations_in_product(g: Build, a: Value, b: Value) -> Value:
    """-a * -b => a * b"""
    return g.Mul(a, b)


@rule(lambda g, a, b: g.Div(g.Neg(a), g.Neg(b)), contract=EXACT)
def cancel_negations_in_quotient(g: Build, a: Value, b: Value) -> Value:
    """-a / -b => a / b"""
    require(a.dtype in FLOATS, "the smallest integer has no negation")
    return g.Div(a, b)


@rule(lambda g, before, x, after, op: g.one_of("Mul", "Div")(*before, g.Neg(x), *after) @ op, contract=EXACT)
def negate_other_operand(g: Build, before: Inputs, x: Value, after: Inputs, op: Op) -> Value:
    """-x * c => x * -c, -x / c => x / -c, c / -x => -c / x"""
    _, c, turned = constant_binary(op)
    made = negate_constant(g, op, c)
    pair = (made, x) if turned else (x, made)
    return g.Mul(*pair) if op.type == "Mul" else g.Div(*pair)


@rule(lambda g, ins, op: g.Neg(g.one_of("Mul", "Div")(*ins) @ op), contract=EXACT)
def negate_operand(g: Build, ins: Inputs, op: Op) -> Value:
    """-(x * c) => x * -c, -(x / c) => x / -c, -(c / x) => -c / x"""
    x, c, turned = constant_binary(op)
    made = negate_constant(g, op, c)
    pair = (made, x) if turned else (x, made)
    return g.Mul(*pair) if op.type == "Mul" else g.Div(*pair)


@rule(lambda g, a, b: g.Neg(g.Sub(a, b)), contract=EXACT)
def swap_integer_difference(g: Build, a: Value, b: Value) -> Value:
    """Integers' -(a - b) => b - a"""
    require(a.dtype not in FLOATS, "it may change the sign of a zero")
    return g.Sub(b, a)


@rule(lambda g, a, b: g.Neg(g.Sub(a, b)), contract=NO_NEGATIVE_ZERO)
def swap_difference(g: Build, a: Value, b: Value) -> Value:
    """-(a - b) => b - a"""
    return g.Sub(b, a)


@rule(lambda g, x, c, op: g.Neg(g.Add(x, g.const(c)) @ op), contract=NO_NEGATIVE_ZERO)
def negate_sum(g: Build, x: Value, c: Value, op: Op) -> Value:
    """-(x + c) => -c - x"""
    return g.Sub(negate_constant(g, op, c), x)


@rule(lambda g, x, c, op: g.Mul(x, g.const(c)) @ op, contract=EXACT)
def multiply_by_minus_one(g: Build, x: Value, c: Value, op: Op) -> Value:
    """Mul(x, -1) => Neg(x)"""
    require_uniform(op, x, c, -1)
    require_ort_kernel(g, "Neg", x)
    return g.Neg(x)


@rule(lambda g, x, c, op: g.Div(x, g.const(c)) @ op, contract=EXACT)
def divide_by_minus_one(g: Build, x: Value, c: Value, op: Op) -> Value:
    """Div(x, -1) => Neg(x)"""
    require(c.dtype in FLOATS, "the smallest integer has no negation")
    require_uniform(op, x, c, -1)
    require_ort_kernel(g, "Neg", x)
    return g.Neg(x)


@rule(lambda g, x, c, op: g.Sub(g.const(c), x) @ op, contract=NO_NEGATIVE_ZERO, fragile=(0.0,))
def sub_from_zero(g: Build, x: Value, c: Value, op: Op) -> Value:
    """Sub(0, x) => Neg(x)"""
    require_uniform(op, x, c, 0)
    require_ort_kernel(g, "Neg", x)
    return g.Neg(x)


def negate_constant(g: Build, op: Op, c: Value) -> Value:
    """-c, for an op in whose place another one comes."""
    require(op.version >= 7, "before opset 7, broadcasting follows other rules")
    require(op.type != "Div" or c.dtype in FLOATS, "the smallest integer has no negation")
    require_bounded_growth(c)
    with np.errstate(all="ignore"):  # integers wrap around, here as there
        return downcast_at_full_precision(g, np.asarray(np.negative(upcast(c))), c)


CANONICALIZE_NEGATIONS = RulePass("canonicalize-negations", (multiply_by_minus_one, divide_by_minus_one, sub_from_zero))
MERGE_NEGATIONS = RulePass(
    "merge-negations",
    (
        cancel_negations,
        add_negation_to_sub,
        sub_negation_to_add,
        cancel_negations_in_product,
        cancel_negations_in_quotient,
        sub_from_negation,
        negate_other_operand,
        negate_operand,
        swap_integer_difference,
        swap_difference,
        negate_sum,
    ),
)
