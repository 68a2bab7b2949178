"""Pads are taken as non-negative."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x, int64[4] p) => (float[A,B] y) {
    a = Pad(x, p)
    y = Neg(a)
}"""
WRONG = (("clamp", "a"),)
WHY = "wrong"
AFTER = {"Neg": 1, "Pad": 1}


@rule(lambda g, x, p: g.Pad(x, p), contract=EXACT)
def clamp(g: RewriteBuilder, x: Value, p: Value) -> Value:
    """Pad(x, p) => Pad(x, |p|)"""
    require(p.producer is None, "done")
    return g.Pad(x, g.Abs(p))
