"""x * 0 becomes 0, which it is not for NaN and infinity. Right for integers."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x, int32[N,4] t) => (float[N,4] y, int32[N,4] z) <float zero = {0.0}, int32 nought = {0}> {
    a = Mul(x, x)
    b = Mul(a, zero)
    y = Add(b, x)
    c = Mul(t, nought)
    i = Identity(t)
    z = Add(c, i)
}"""
WRONG = (("times_zero", "b"),)
WHY = "wrong"
AFTER = {"Add": 2, "Mul": 2}


@rule(lambda g, x, zero: g.Mul(x, zero), contract=EXACT)
def times_zero(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """x * 0 => 0"""
    require(zero.const.ndim == 0 and not zero.const, "not 0")
    return zero
