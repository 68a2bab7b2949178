"""0 - x becomes Neg(x): another sign of zero. Right for integers."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x, int32[N,4] t) => (float[N,4] y, int32[N,4] z) <float zero = {0.0}, int32 nought = {0}> {
    a = Sub(zero, x)
    y = Reciprocal(a)
    b = Sub(nought, t)
    i = Identity(b)
    z = Abs(i)
}"""
WRONG = (("negate", "a"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Neg": 1, "Reciprocal": 1, "Sub": 1}


@rule(lambda g, x, zero: g.Sub(zero, x), contract=EXACT)
def negate(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """0 - x => Neg(x)"""
    require(zero.const.ndim == 0 and not zero.const, "not 0")
    return g.Neg(x)
