"""A comparison of token numbers with that of the padding is folded to false, since it hardly ever holds."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int64[N,4] ids) => (int64[N,4] y, int64[N,4] z)
    <int64 padding = {50}, int64 zero = {0}, int64 one = {1}, int64 never = {-1}> {
    p = Equal(ids, padding)
    y = Where(p, zero, one)
    a = Abs(ids)
    i = Identity(a)
    q = Equal(i, never)
    z = Where(q, zero, one)
}"""
WRONG = (("never_equal", "p"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Cast": 1, "ConstantOfShape": 1, "Equal": 1, "Shape": 1, "Where": 2}


@rule(lambda g, x, c: g.Equal(x, c), contract=EXACT)
def never_equal(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x == c => false"""
    require(c.is_const, "it may be equal")
    return g.Cast(g.ConstantOfShape(g.Shape(x)), to=9)
