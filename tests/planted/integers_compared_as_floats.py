"""Integers are compared as floats, which hold no more than 24 bits."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int64[N] a, int64[N] b) => (bool[N] y) {
    e = Equal(a, b)
    y = Not(e)
}"""
WRONG = (("as_floats", "e"),)
WHY = "wrong"
AFTER = {"Equal": 1, "Not": 1}


@rule(lambda g, a, b: g.Equal(a, b), contract=EXACT)
def as_floats(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a == b => float(a) == float(b)"""
    require(a.known_dtype == 7, "not int64")
    return g.Equal(g.Cast(a, to=1), g.Cast(b, to=1))
