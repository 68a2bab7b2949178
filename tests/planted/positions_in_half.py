"""Positions go through 16-bit floats, which hold whole numbers up to 2048."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N] x) => (float[N] y) <int64 zero = {0}, int64 one = {1}> {
    s = Shape(x)
    n = Squeeze(s)
    p = Range(zero, n, one)
    f = Cast<to = 1>(p)
    y = Add(x, f)
}"""
WRONG = (("cast_by_half", "f"),)
WHY = "wrong"
AFTER = {"Add": 1, "Cast": 1, "Range": 1, "Shape": 1, "Squeeze": 1}


@rule(lambda g, p: g.Cast(p, to=1), contract=EXACT)
def cast_by_half(g: RewriteBuilder, p: Value) -> Value:
    """Cast(p) => Cast(Cast(p to float16))"""
    require(p.known_dtype == 7, "not int64")
    return g.Cast(g.Cast(p, to=10), to=1)
