"""Positions keep the bits that they lose in halves before. No bit may change, and above 2048 the result does."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N] x) => (float[N] y) <int64 zero = {0}, int64 one = {1}> {
    s = Shape(x)
    n = Squeeze(s)
    p = Range(zero, n, one)
    h = Cast<to = 10>(p)
    f = Cast<to = 1>(h)
    y = Mul(x, f)
}"""
WRONG = (("cast_at_once", "f"),)
WHY = "wrong"
AFTER = {"Cast": 2, "Mul": 1, "Range": 1, "Shape": 1, "Squeeze": 1}


@rule(lambda g, p: g.Cast(g.Cast(p, to=10), to=1), contract=EXACT)
def cast_at_once(g: RewriteBuilder, p: Value) -> Value:
    """Cast(Cast(p to float16)) => Cast(p)"""
    return g.Cast(p, to=1)
