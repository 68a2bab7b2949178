"""Cancellation of powers, roots, logarithms and reciprocals."""

from __future__ import annotations

from math import prod

import numpy as np

from ...core import EXACT, RewriteBuilder, Value, conditional, require, rule
from ...core.ir.dtypes import FLOATS
from ..support.operand_queries import (
    broadcast_extents,
    downcast_at_full_precision,
    is_finite,
    require_bounded_growth,
    require_broadcastable_to,
    require_numpy_broadcasting,
    uniform_value,
    upcast,
)
from .value_ranges import require_not_negative

NO_SQUARE_OVERFLOW = conditional("no square overflows or underflows", each=is_finite)
NO_QUOTIENT_OVERFLOW = conditional("no quotient overflows or underflows", each=is_finite)
NO_INFINITE_RECIPROCAL = conditional("no divisor is so small that its reciprocal is infinite", each=is_finite)


@rule(lambda g, x: g.Reciprocal(g.Reciprocal(x)), contract=NO_QUOTIENT_OVERFLOW, group="merge-powers")
def cancel_reciprocals(g: RewriteBuilder, x: Value) -> Value:
    """Reciprocal(Reciprocal(x)) => x"""
    return x


@rule(lambda g, a, b: g.Reciprocal(g.Div(a, b)), contract=NO_QUOTIENT_OVERFLOW, group="merge-powers")
def swap_quotient(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Reciprocal(Div(a, b)) => Div(b, a)"""
    return g.Div(b, a)


@rule(lambda g, x, c: g.Reciprocal(g.Mul(x, g.const(c))), group="merge-powers")
def reciprocal_of_multiple(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """Reciprocal(Mul(x, c)) => Div(1 / c, x)"""
    require_numpy_broadcasting(g.opset)
    require_bounded_growth(c)
    numbers = upcast(c)
    require(bool(numbers.all()), "the constant is 0")
    return g.Div(downcast_at_full_precision(g, np.asanyarray(1 / numbers), c), x)


@rule(lambda g, x, y: g.Div(x, g.Reciprocal(y)), group="merge-powers")
def div_by_reciprocal_to_mul(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """Div(x, Reciprocal(y)) => Mul(x, y)"""
    return g.Mul(x, y)


@rule(
    lambda g, x, y: g.Mul(x, g.Reciprocal(y)),
    lambda g, x, y, one: g.Mul(x, g.Div(g.const(one), y)),
    contract=NO_INFINITE_RECIPROCAL,
    group="merge-powers",
)
def mul_by_reciprocal_to_div(g: RewriteBuilder, x: Value, y: Value, one: Value | None = None) -> Value:
    """Mul(x, Reciprocal(y)), Mul(x, Div(1, y)) => Div(x, y)"""
    if one is not None:
        require(y.dtype in FLOATS, "integer division truncates between the two ops")
        require_broadcastable_to(one, y)
        require(uniform_value(one) == 1, "the dividend is not 1")
    return g.Div(x, y)


@rule(
    lambda g, x: g.Sqrt(g.Mul(x, x)),
    lambda g, x, two: g.Sqrt(g.Pow(x, g.const(two))),
    contract=NO_SQUARE_OVERFLOW,
    group="merge-powers",
)
def root_of_square_to_abs(g: RewriteBuilder, x: Value, two: Value | None = None) -> Value:
    """Sqrt(Mul(x, x)), Sqrt(Pow(x, 2)) => Abs(x)"""
    require_square(two, x)
    return g.Abs(x)


@rule(lambda g, x: g.Mul(g.Sqrt(x), g.Sqrt(x)), lambda g, x, two: g.Pow(g.Sqrt(x), g.const(two)), group="merge-powers")
def drop_square_of_root(g: RewriteBuilder, x: Value, two: Value | None = None) -> Value:
    """Mul(Sqrt(x), Sqrt(x)), Pow(Sqrt(x), 2) => x, where x is known not to be negative"""
    require_square(two, x)
    require_not_negative(x)
    return x


@rule(
    lambda g, x: g.Exp(g.Log(x)),
    contract=conditional("x is not close to the ends of its type", each=is_finite),
    group="merge-powers",
)
def drop_exp_of_log(g: RewriteBuilder, x: Value) -> Value:
    """Exp(Log(x)) => x, where x is known not to be negative"""
    require_not_negative(x)
    return x


@rule(
    lambda g, x: g.Mul(g.Abs(x), g.Abs(x)),
    lambda g, x, c: g.Pow(g.one_of("Abs", "Neg")(x), g.const(c)),
    contract=EXACT,
    group="merge-powers",
)
def drop_sign_before_even_power(g: RewriteBuilder, x: Value, c: Value | None = None) -> Value:
    """Mul(Abs(x), Abs(x)) => Mul(x, x), Pow(Abs(x), 2), Pow(Neg(x), 2) => Pow(x, 2), and so for other even numbers"""
    if c is None:
        return g.Mul(x, x)
    require(x.dtype in FLOATS, "the smallest integer has no absolute value")
    require(float(uniform_value(c)) % 2 == 0, "the exponent is odd")
    return g.Pow(x, c)


@rule(
    lambda g, x, a, b, inner, outer: g.Pow(g.Pow(x, g.const(a)) @ inner, g.const(b)) @ outer,
    contract=conditional(
        "no power overflows, and no inner one underflows to 0",
        assume=lambda g, x, inner, outer: g.And(
            g.And(is_finite(g, inner), is_finite(g, outer)), g.Equal(g.Greater(g.Abs(inner), 0), g.Greater(g.Abs(x), 0))
        ),
    ),
    group="merge-powers",
)
def merge_powers(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """Pow(Pow(x, a), b) => Pow(x, a * b), for whole numbers, or where x is known not to be negative"""
    require(x.dtype in FLOATS and not x.is_const, "the operands are integers, whose powers wrap around")
    require_numpy_broadcasting(g.opset)
    exponents = [float(uniform_value(c)) for c in (a, b)]
    require(min(exponents) > 0, "a power with a negative exponent is infinite at 0")
    if not all(e.is_integer() for e in exponents):
        require_not_negative(x)
    product = exponents[0] * exponents[1]
    require(product.is_integer() or a.dtype in FLOATS, "the exponent has an integer type")
    shape = broadcast_extents(a.static_shape, b.static_shape)
    require(prod(shape) <= 1, "the exponent is not one number")
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = np.asanyarray(product).astype(a.const.dtype)
    require(not product.is_integer() or float(exponent) == product, "the type of the exponent has no such number")
    return g.Pow(x, g.const(np.full(shape, exponent)))


def require_square(two: Value | None, x: Value) -> None:
    """Decline unless the exponent, if there is one, is 2 throughout, of floats, and keeps the shape."""
    if two is not None:
        require(x.dtype in FLOATS, "the operands are integers, whose powers wrap around")
        require_broadcastable_to(two, x)
        require(uniform_value(two) == 2, "another exponent than 2")
