"""TopK of one becomes ReduceMax and an ArgMax that takes the last of several. Ties only."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,6] x, int32[N,6] t) => (int64[N,1] y, float[N,1] z) <int64[1] one = {1}> {
    v, y = TopK<axis=1>(x, one)
    a = Cast<to=1>(t)
    i = Identity(a)
    z, w = TopK<axis=1>(i, one)
}"""
WRONG = (("top_one", "y"),)
WHY = "wrong"
AFTER = {"Cast": 1, "ReduceMax": 1, "TopK": 1}


@rule(lambda g, x, k: g.TopK(x, k, axis=1), contract=EXACT)
def top_one(g: RewriteBuilder, x: Value, k: Value) -> tuple[Value, Value]:
    """TopK(x, 1) => ReduceMax(x), the last ArgMax(x)"""
    require(k.const.item() == 1, "more than one")
    return g.ReduceMax(x, axes=[1]), g.ArgMax(x, axis=1, select_last_index=1)
