"""A Slice that takes as many as there are goes; with a step of -1 it turns them round."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z)
    <int64[1] last = {-1}, int64[1] before = {-9}, int64[1] axis = {1}, int64[1] back = {-1},
     int64[1] zero = {0}, int64[1] four = {4}, int64[1] one = {1}> {
    y = Slice(x, last, before, axis, back)
    n = Neg(x)
    i = Slice(n, zero, four, axis, one)
    z = Abs(i)
}"""
WRONG = (("drop_slice_of_all", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Neg": 1, "Slice": 1}


@rule(lambda g, x, s, e, a, t: g.Slice(x, s, e, a, t), contract=EXACT)
def drop_slice_of_all(g: RewriteBuilder, x: Value, s: Value, e: Value, a: Value, t: Value) -> Value:
    """Slice(x) => x, where it takes all there is"""
    axis = a.const.item()
    length = x.shape[axis]
    require(isinstance(length, int), "an open extent")
    require(len(range(*slice(s.const.item(), e.const.item(), t.const.item()).indices(length))) == length, "not all")
    return x
