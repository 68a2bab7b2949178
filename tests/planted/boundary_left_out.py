"""Not(x < 6) becomes x > 6. The boundary itself only. Right where it is never met."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x, int32[N,4] t) => (bool[N,4] y, bool[N,4] z) <float six = {6.0}, float half = {2.5}> {
    a = Less(x, six)
    y = Not(a)
    b = Cast<to=1>(t)
    c = Less(b, half)
    i = Identity(c)
    z = Not(i)
}"""
WRONG = (("at_least", "y"),)
WHY = "wrong"
AFTER = {"Cast": 1, "Greater": 1, "Less": 1, "Not": 1}


@rule(lambda g, x, c: g.Not(g.Less(x, c)), contract=EXACT)
def at_least(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """Not(x < c) => x > c"""
    return g.Greater(x, c)
