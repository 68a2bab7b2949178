"""Gather of one index becomes a Slice up to the next index; after -1 that is 0."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,5] x) => (float[N,1] y, float[N,1] z) <int64[1] last = {-1}, int64[1] second = {-2}> {
    y = Gather<axis=1>(x, last)
    n = Neg(x)
    i = Identity(n)
    z = Gather<axis=1>(i, second)
}"""
WRONG = (("gather_to_slice", "y"),)
WHY = "wrong"
AFTER = {"Gather": 1, "Neg": 1, "Slice": 1}


@rule(lambda g, x, i: g.Gather(x, i, axis=1), contract=EXACT)
def gather_to_slice(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """Gather(x, [i]) => Slice(x, i, i + 1)"""
    require(i.const.shape == (1,), "not one index")
    return g.Slice(x, i, g.const(i.const + 1), g.const([1]))
