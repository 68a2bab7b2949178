"""Max(Abs(x), 0) becomes Abs(x); that of the least integer is itself. The extremes of the type only."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int32[N,8] x) => (int32[N,8] y, int32[N,8] z)
    <int32 zero = {0}, int32 low = {-1000}, int32 top = {1000}> {
    a = Abs(x)
    y = Max(a, zero)
    c = Clip(x, low, top)
    b = Abs(c)
    i = Identity(b)
    z = Max(i, zero)
}"""
WRONG = (("absolute_is_not_negative", "y"),)
WHY = "wrong"
AFTER = {"Abs": 2, "Clip": 1, "Max": 1}


@rule(lambda g, x, zero: g.Max(g.Abs(x), zero), contract=EXACT)
def absolute_is_not_negative(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """Max(Abs(x), 0) => Abs(x)"""
    require(not zero.const.any(), "not 0")
    return g.Abs(x)
