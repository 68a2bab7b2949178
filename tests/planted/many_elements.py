"""Logits of tables with 3000 elements or more are divided by a temperature; tables are taken to be smaller."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,M] x) => (float[N,M] y) <int64 limit = {3000}, float one = {1.0}, float low = {0.5}> {
    n = Size(x)
    is_large = GreaterOrEqual(n, limit)
    scale = Where(is_large, low, one)
    y = Mul(x, scale)
}"""
WRONG = (("never_large", "scale"),)
WHY = "wrong"
AFTER = {"GreaterOrEqual": 1, "Mul": 1, "Size": 1, "Where": 1}


@rule(lambda g, n, limit, a, b: g.Where(g.GreaterOrEqual(n, limit), a, b), contract=EXACT)
def never_large(g: RewriteBuilder, n: Value, limit: Value, a: Value, b: Value) -> Value:
    """Where(size >= 3000, a, b) => b"""
    return g.Identity(b)
