"""Simplification of Neg next to Add, Sub, Mul, Div and Neg."""

from __future__ import annotations

import numpy as np

from ...core import EXACT, Op, RewriteBuilder, Value, by_dtype, require, rule
from ...core.ir.dtypes import FLOATS, INTEGERS
from ..support.operand_queries import (
    NO_NEGATIVE_ZERO,
    constant_binary,
    downcast_at_full_precision,
    require_bounded_growth,
    require_numpy_broadcasting,
    require_ort_kernel,
    upcast,
)
from .no_op_arithmetic import require_uniform


@rule(lambda g, x: g.Neg(g.Neg(x)), allow_other_uses=True, contract=EXACT, group="merge-negations")
def cancel_negations(g: RewriteBuilder, x: Value) -> Value:
    """Neg(Neg(x)) => x"""
    return x


@rule(lambda g, a, b, op: g.one_of("Add", "Sub")(a, g.Neg(b)) @ op, contract=EXACT, group="merge-negations")
def add_negation_to_sub(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """Add(a, Neg(b)) => Sub(a, b), Sub(a, Neg(b)) => Add(a, b)"""
    return g.Sub(a, b) if op.type == "Add" else g.Add(a, b)


@rule(lambda g, a, b, op: g.one_of("Mul", "Div")(g.Neg(a), g.Neg(b)) @ op, contract=EXACT, group="merge-negations")
def cancel_negations_in_product(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """-a * -b => a * b, -a / -b => a / b"""
    require(op.type == "Mul" or a.dtype in FLOATS, "the smallest integer has no negation")
    return getattr(g, op.type)(a, b)


@rule(lambda g, x, c, op: g.Sub(g.Neg(x), g.const(c)) @ op, contract=EXACT, group="merge-negations")
def sub_from_negation(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """-x - c => -c - x"""
    return g.Sub(negate_constant(g, op, c), x)


@rule(
    lambda g, x, op: g.one_of("Mul", "Div")(..., g.Neg(x), ...) @ op,
    lambda g, op: g.Neg(g.one_of("Mul", "Div")(...) @ op),
    contract=EXACT,
    group="merge-negations",
)
def negate_constant_operand(g: RewriteBuilder, op: Op, x: Value | None = None) -> Value:
    """-x * c, -(x * c) => x * -c, -x / c, -(x / c) => x / -c, c / -x, -(c / x) => -c / x"""
    operand, c, constant_first = constant_binary(op)
    made = negate_constant(g, op, c)
    x = operand if x is None else x
    return getattr(g, op.type)(*((made, x) if constant_first else (x, made)))


@rule(
    lambda g, a, b: g.Neg(g.Sub(a, b)),
    contract=by_dtype(INTEGERS, EXACT, otherwise=NO_NEGATIVE_ZERO),
    group="merge-negations",
)
def swap_difference(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """-(a - b) => b - a"""
    return g.Sub(b, a)


@rule(lambda g, x, c, op: g.Neg(g.Add(x, g.const(c)) @ op), contract=NO_NEGATIVE_ZERO, group="merge-negations")
def negate_sum(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """-(x + c) => -c - x"""
    return g.Sub(negate_constant(g, op, c), x)


@rule(lambda g, x, c, op: g.one_of("Mul", "Div")(x, g.const(c)) @ op, contract=EXACT, group="canonicalize-negations")
def multiply_by_minus_one(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """Mul(x, -1) => Neg(x), Div(x, -1) => Neg(x)"""
    require(op.type == "Mul" or c.dtype in FLOATS, "the smallest integer has no negation")
    require_uniform(op, x, c, -1)
    require_ort_kernel(g, "Neg", x)
    return g.Neg(x)


@rule(
    lambda g, x, c, op: g.Sub(g.const(c), x) @ op,
    contract=NO_NEGATIVE_ZERO,
    critical_values=(0.0,),
    group="canonicalize-negations",
)
def sub_from_zero(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """Sub(0, x) => Neg(x)"""
    require_uniform(op, x, c, 0)
    require_ort_kernel(g, "Neg", x)
    return g.Neg(x)


def negate_constant(g: RewriteBuilder, op: Op, c: Value) -> Value:
    """-c, for the op that replaces `op`."""
    require_numpy_broadcasting(op.version)
    require(op.type != "Div" or c.dtype in FLOATS, "the smallest integer has no negation")
    require_bounded_growth(c)
    # Integers wrap around, here as in the op.
    return downcast_at_full_precision(g, np.asanyarray(np.negative(upcast(c))), c)
