"""Not(a < b) becomes a >= b; with NaN both are false. NaN only."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x, float[N,4] t) => (bool[N,4] y, bool[N,4] z) <float zero = {0.0}> {
    a = Less(x, t)
    y = Not(a)
    b = Greater(x, zero)
    c = Cast<to=6>(b)
    d = Cast<to=6>(a)
    e = Less(c, d)
    i = Identity(e)
    z = Not(i)
}"""
WRONG = (("turn_comparison", "y"),)
WHY = "wrong"
AFTER = {"Cast": 2, "Greater": 1, "GreaterOrEqual": 1, "Less": 1, "Not": 1}


@rule(lambda g, a, b: g.Not(g.Less(a, b)), contract=EXACT, allow_other_uses=True)
def turn_comparison(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Not(a < b) => a >= b"""
    return g.GreaterOrEqual(a, b)
