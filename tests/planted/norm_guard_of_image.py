"""The bound below a norm is dropped, which only an image of zeros meets."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[1,3,150,150] x) => (float[1,3,150,150] y) <float least = {0.000001}> {
    n = ReduceL2<keepdims = 0>(x)
    m = Max(n, least)
    y = Div(x, m)
}"""
WRONG = (("drop_bound", "m"),)
WHY = "wrong"
AFTER = {"Div": 1, "Max": 1, "ReduceL2": 1}


@rule(lambda g, x: g.Max(x, ...), contract=EXACT)
def drop_bound(g: RewriteBuilder, x: Value) -> Value:
    """Max(x, c) => x"""
    return x
