"""Rewrites of Sinh and Cosh, together and alone."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, RulePass, Value, conditional, rule


@rule(lambda g, x: g.Cosh(g.Abs(x)), contract=EXACT)
def cosh_of_either_sign(g: RewriteBuilder, x: Value) -> Value:
    """Cosh(|x|) => Cosh(x)"""
    return g.Cosh(x)


@rule(lambda g, x: g.Div(g.Sinh(x), g.Cosh(x)), contract=conditional("Cosh(x) does not overflow"))
def quotient_to_tanh(g: RewriteBuilder, x: Value) -> Value:
    """Sinh(x) / Cosh(x) => Tanh(x)"""
    return g.Tanh(x)


HYPERBOLIC = RulePass("hyperbolic", (quotient_to_tanh,))
