"""Pow(x, 2) becomes x * x where the first of several exponents is 2."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[N,2] x) => (float[N,2] y, float[N,2] z) <float[2] several = {2.0, 3.0}, float two = {2.0}> {
    y = Pow(x, several)
    n = Neg(x)
    i = Identity(n)
    z = Pow(i, two)
}"""
WRONG = (("square", "y"),)
WHY = "wrong"
AFTER = {"Mul": 1, "Neg": 1, "Pow": 1}


@rule(lambda g, x, e: g.Pow(x, e))
def square(g: RewriteBuilder, x: Value, e: Value) -> Value:
    """Pow(x, 2) => x * x"""
    require(e.const.flat[0] == 2, "another exponent")
    return g.Mul(x, x)
