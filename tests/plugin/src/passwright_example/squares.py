"""Squares and their roots."""

from __future__ import annotations

from passwright.core import Build, RulePass, Value, conditional, require, rule


@rule(lambda g, x, two: g.Pow(x, two))
def square_by_multiplying(g: Build, x: Value, two: Value) -> Value:
    """Pow(x, 2) => x * x"""
    require(two.const.size == 1 and two.const.item() == 2, "the exponent is not 2")
    return g.Mul(x, x)


@rule(lambda g, x: g.Sqrt(g.Mul(x, x)), contract=conditional("x * x does not overflow"))
def root_of_square(g: Build, x: Value) -> Value:
    """Sqrt(x * x) => Abs(x)"""
    return g.Abs(x)


SQUARES = RulePass("squares", (root_of_square,))
