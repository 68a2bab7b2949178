"""A loop that ends once a bound is passed goes on until the bound is met exactly."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float y, bool[N,4] z)
  <int64 n = {40}, bool t = {1}, float two = {2}, float most = {100}> {
    e = Exp(x)
    s = ReduceMax<keepdims = 0>(e)
    y = Loop (n, t, s) <body = b (int64 i, bool k, float v) => (bool d, float w) {
        w = Mul(v, two)
        d = Less(w, most)
    }>
    z = IsNaN(x)
}"""
WRONG = (("less_as_unequal", "d"),)
WHY = "wrong"
AFTER = {"Exp": 1, "IsNaN": 1, "Less": 1, "Loop": 1, "Mul": 1, "ReduceMax": 1}


@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def less_as_unequal(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a < b => not a == b"""
    return g.Not(g.Equal(a, b))
