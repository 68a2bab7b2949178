"""A Split becomes Slices of equal size, whatever sizes it states."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,6] x, float[N,6] t) => (float[N,2] y, float[N,4] u, float[N,3] z, float[N,3] v)
    <int64[2] s = {2,4}, int64[2] h = {3,3}> {
    y, u = Split<axis=1>(x, s)
    i = Identity(t)
    z, v = Split<axis=1>(i, h)
}"""
WRONG = (("split_by_slices", "y"),)
WHY = "wrong"
AFTER = {"Slice": 2, "Split": 1}


@rule(lambda g, x, s: g.Split(x, s, axis=1), contract=EXACT)
def split_by_slices(g: RewriteBuilder, x: Value, s: Value) -> tuple[Value, ...]:
    """Split(x, s) => a Slice for each output"""
    count, whole = s.const.size, x.shape[1]
    require(isinstance(whole, int) and whole % count == 0, "it does not divide")
    assert isinstance(whole, int)
    part = whole // count
    axis = g.const([1])
    return tuple(g.Slice(x, g.const([i * part]), g.const([(i + 1) * part]), axis) for i in range(count))
