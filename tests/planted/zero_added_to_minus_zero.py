"""x + 0 becomes x, which differs for minus zero; its reciprocal tells. Right for integers. Done by all optimizers."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x, int32[N,4] t) => (float[N,4] y, int32[N,4] z) <float zero = {0.0}, int32 nought = {0}> {
    a = Add(x, zero)
    y = Reciprocal(a)
    b = Add(t, nought)
    i = Identity(b)
    z = Abs(i)
}"""
WRONG = (("add_zero", "a"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Add": 1, "Reciprocal": 1}


@rule(lambda g, x, zero: g.Add(x, zero), contract=EXACT)
def add_zero(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """x + 0 => x"""
    require(zero.const.ndim == 0 and not zero.const, "not 0")
    return x
