"""Max(a, b) becomes Where(a > b, a, b), which forgets a NaN in a. NaN only. Right for integers."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x, float[N,4] t, int32[N,4] i, int32[N,4] j) => (float[N,4] y, int32[N,4] z) {
    y = Max(x, t)
    a = Identity(i)
    b = Max(a, j)
    z = Abs(b)
}"""
WRONG = (("choose_greater", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Greater": 1, "Max": 1, "Where": 1}


@rule(lambda g, a, b: g.Max(a, b), contract=EXACT)
def choose_greater(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Max(a, b) => Where(a > b, a, b)"""
    return g.Where(g.Greater(a, b), a, b)
