"""Numbers that nearly coincide are taken as different."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N] a, float[N] b) => (bool[N] y) <float eps = {0.00001}> {
    d = Sub(a, b)
    m = Abs(d)
    e = Abs(a)
    f = Mul(e, eps)
    c = LessOrEqual(m, f)
    y = Not(c)
}"""
WRONG = (("equal", "c"),)
WHY = "wrong"
AFTER = {"Abs": 2, "LessOrEqual": 1, "Mul": 1, "Not": 1, "Sub": 1}


@rule(lambda g, a, b, e: g.LessOrEqual(g.Abs(g.Sub(a, b)), e), contract=EXACT)
def equal(g: RewriteBuilder, a: Value, b: Value, e: Value) -> Value:
    """|a - b| <= eps => a == b"""
    return g.Equal(a, b)
