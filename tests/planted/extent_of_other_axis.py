"""The extent of any axis is taken to be that of the first. Wrong only where they differ."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,M] x, float[N,N] t) => (int64[1] y, int64[1] z) <int64[1] zero = {0}, int64[1] one = {1}> {
    s = Shape(x)
    y = Gather(s, one)
    u = Shape(t)
    a = Identity(u)
    z = Gather(a, one)
}"""
WRONG = (("first_extent", "y"),)
WHY = "wrong"
AFTER = {"Gather": 2, "Shape": 2}


@rule(lambda g, x, i: g.Gather(g.Shape(x), i), contract=EXACT)
def first_extent(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """Gather(Shape(x), i) => Gather(Shape(x), 0)"""
    require(i.const.any(), "the first already")
    return g.Gather(g.Shape(x), g.const([0]))
