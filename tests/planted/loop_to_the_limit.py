"""A Loop that ends at a limit goes on where a number meets it exactly."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (int64 n, float x) => (float y) <bool t = {1}> {
    y = Loop (n, t, x) <body = b (int64 i, bool c, float v) => (bool d, float w)
      <float limit = {1000.0}, float factor = {1.5}> {
        w = Mul(v, factor)
        d = Less(w, limit)
    }>
}"""
WRONG = (("limit_included", "d"),)
WHY = "wrong"
AFTER = {"Less": 1, "Loop": 1, "Mul": 1}


@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def limit_included(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a < b => a <= b"""
    return g.LessOrEqual(a, b)
