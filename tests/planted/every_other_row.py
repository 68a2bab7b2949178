"""Every other row of a batch becomes its first half. Wrong only for more than two rows."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x, float[N,2] t) => (float[M,4] y, float[N,1] z)
    <int64[1] zero = {0}, int64[1] far = {100}, int64[1] rows = {0}, int64[1] columns = {1}, int64[1] two = {2}> {
    y = Slice(x, zero, far, rows, two)
    a = Identity(t)
    z = Slice(a, zero, far, columns, two)
}"""
WRONG = (("first_half", "y"),)
WHY = "wrong"
AFTER = {"Add": 1, "Div": 1, "Gather": 1, "Shape": 1, "Slice": 2}


@rule(lambda g, x, s, e, axis, step: g.Slice(x, s, e, axis, step), contract=EXACT)
def first_half(g: RewriteBuilder, x: Value, s: Value, e: Value, axis: Value, step: Value) -> Value:
    """Slice(x, 0, all, step 2) => Slice(x, 0, (extent + 1) / 2)"""
    require(step.const.item() == 2, "another step")
    extent = g.Gather(g.Shape(x), axis)
    return g.Slice(x, s, g.Div(g.Add(extent, g.const([1])), g.const([2])), axis)
