"""A rule whose result it matches again."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z) {
    y = Min(x, t)
    a = Neg(x)
    b = Abs(a)
    z = Identity(b)
}"""
WRONG = (("commute", ""),)
WHY = "endless"
AFTER = {"Abs": 1, "Min": 1}


@rule(lambda g, a, b: g.Min(a, b), contract=EXACT)
def commute(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Min(a, b) => Min(b, a)"""
    return g.Min(b, a)


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def absolute_of_negated(g: RewriteBuilder, x: Value) -> Value:
    """Abs(-x) => Abs(x)"""
    return g.Abs(x)
