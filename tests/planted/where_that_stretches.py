"""A Where with a constant condition gives the branch that is taken, which the condition may have stretched."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[1,3] x, float[2,3] t) => (float[2,3] y, float[2,3] z) <bool[2,1] yes = {1,1}> {
    n = Neg(x)
    a = Where(yes, n, x)
    y = Abs(a)
    m = Neg(t)
    b = Where(yes, m, t)
    z = Abs(b)
}"""
WRONG = (("where_true", "a"),)
WHY = "wrong"
AFTER = {"Abs": 2, "Neg": 2, "Where": 1}


@rule(lambda g, c, a, b: g.Where(c, a, b), contract=EXACT)
def where_true(g: RewriteBuilder, c: Value, a: Value, b: Value) -> Value:
    """Where(true, a, b) => a"""
    require(c.const.all(), "b is taken somewhere")
    return a
