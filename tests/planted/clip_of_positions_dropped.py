"""A bound of positions is dropped, which only more than 300 of them reach."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,T] x) => (float[N,T] y) <int64 zero = {0}, int64 one = {1}, int64 most = {300}> {
    s = Shape<start = 1>(x)
    t = Squeeze(s)
    p = Range(zero, t, one)
    m = Min(p, most)
    f = Cast<to = 1>(m)
    y = Add(x, f)
}"""
WRONG = (("drop_bound", "m"),)
WHY = "wrong"
AFTER = {"Add": 1, "Cast": 1, "Min": 1, "Range": 1, "Shape": 1, "Squeeze": 1}


@rule(lambda g, p: g.Min(p, ...), contract=EXACT)
def drop_bound(g: RewriteBuilder, p: Value) -> Value:
    """Min(p, c) => p"""
    return p
