"""Seconds become days in floats, which hold no more than 24 bits."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int64[N] x) => (int64[N] y) <int64 d = {86400}> {
    q = Div(x, d)
    y = Neg(q)
}"""
WRONG = (("divide_floats", "q"),)
WHY = "wrong"
AFTER = {"Div": 1, "Neg": 1}


@rule(lambda g, x, c: g.Div(x, c), contract=EXACT)
def divide_floats(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x / c => the quotient of floats, towards zero"""
    require(x.known_dtype == 7, "not int64")
    return g.Cast(g.Div(g.Cast(x, to=1), g.Cast(c, to=1)), to=7)
