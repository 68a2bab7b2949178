"""x * x > 0 becomes x != 0; the square of a tiny number is 0. Tiny inputs only (and NaN)."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x) => (bool[N,4] y, bool[N,4] z) <float zero = {0.0}> {
    a = Mul(x, x)
    y = Greater(a, zero)
    p = Greater(x, zero)
    s = Cast<to=1>(p)
    b = Mul(s, s)
    i = Identity(b)
    z = Greater(i, zero)
}"""
WRONG = (("square_is_positive", "y"),)
WHY = "wrong"
AFTER = {"Cast": 1, "Equal": 1, "Greater": 2, "Mul": 1, "Not": 1}


@rule(lambda g, x, zero: g.Greater(g.Mul(x, x), zero), contract=EXACT)
def square_is_positive(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """x * x > 0 => x != 0"""
    require(not zero.const.any(), "not 0")
    return g.Not(g.Equal(x, zero))
