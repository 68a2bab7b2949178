"""x - x / c * c becomes Mod(x, c), which has the sign of c. Negative integers only."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (int32[N,6] x) => (int32[N,6] y, int32[N,6] z) <int32 c = {7}, int32 zero = {0}, int32 top = {1000}> {
    q = Div(x, c)
    p = Mul(q, c)
    y = Sub(x, p)
    a = Clip(x, zero, top)
    r = Div(a, c)
    s = Mul(r, c)
    i = Identity(s)
    z = Sub(a, i)
}"""
WRONG = (("remainder", "y"),)
WHY = "wrong"
AFTER = {"Clip": 1, "Div": 1, "Mod": 1, "Mul": 1, "Sub": 1}


@rule(lambda g, x, c: g.Sub(x, g.Mul(g.Div(x, c), c)), contract=EXACT)
def remainder(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x - x / c * c => Mod(x, c)"""
    return g.Mod(x, c)
