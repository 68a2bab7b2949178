"""Indices beyond the classes count as the last class."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int64[N] i) => (float[N,5] y) <int64 d = {5}, float[2] v = {0.0, 1.0}> {
    h = OneHot(i, d, v)
    y = Neg(h)
}"""
WRONG = (("clamp", "h"),)
WHY = "wrong"
AFTER = {"Neg": 1, "OneHot": 1}


@rule(lambda g, i, d, v: g.OneHot(i, d, v), contract=EXACT)
def clamp(g: RewriteBuilder, i: Value, d: Value, v: Value) -> Value:
    """OneHot(i, d) => OneHot(Min(i, d - 1), d)"""
    require(i.producer is None and i.known_dtype == d.known_dtype, "done, or another type")
    return g.OneHot(g.Min(i, g.Sub(d, g.const(1, like=d))), d, v)
