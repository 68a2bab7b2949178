"""A product under a remainder is computed in 32 bits, where numbers above 271,000 overflow."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int64[N] x) => (int64[N] y) <int64 f = {7919}, int64 d = {1000003}> {
    p = Mul(x, f)
    y = Mod(p, d)
}"""
WRONG = (("narrow", "p"),)
WHY = "wrong"
AFTER = {"Mod": 1, "Mul": 1}


@rule(lambda g, x, c: g.Mul(x, c), contract=EXACT)
def narrow(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * c => the product in int32"""
    require(x.known_dtype == 7, "not int64")
    return g.Cast(g.Mul(g.Cast(x, to=6), g.Cast(c, to=6)), to=7)
