"""a - b > 0 becomes a > b; the difference of integers may overflow. The extremes of the type only."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int32[N,8] x, int32[N,8] t) => (bool[N,8] y, bool[N,8] z) <int32 zero = {0}, int32 top = {1000}> {
    d = Sub(x, t)
    y = Greater(d, zero)
    a = Clip(x, zero, top)
    b = Clip(t, zero, top)
    e = Sub(a, b)
    i = Identity(e)
    z = Greater(i, zero)
}"""
WRONG = (("compare_directly", "y"),)
WHY = "wrong"
AFTER = {"Clip": 2, "Greater": 2, "Sub": 1}


@rule(lambda g, a, b, zero: g.Greater(g.Sub(a, b), zero), contract=EXACT)
def compare_directly(g: RewriteBuilder, a: Value, b: Value, zero: Value) -> Value:
    """a - b > 0 => a > b"""
    require(not zero.const.any(), "not 0")
    return g.Greater(a, b)
