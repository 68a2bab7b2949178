"""A wrong rule and a right one want the same op; the right one gets it once the wrong one is left out there."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Neg(x)
    y = Abs(a)
    s = Sigmoid(x)
    b = Neg(s)
    i = Identity(b)
    z = Abs(i)
}"""
WRONG = (("drop_both", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Sigmoid": 1}


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def drop_both(g: RewriteBuilder, x: Value) -> Value:
    """Abs(-x) => x"""
    return x


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def drop_negation(g: RewriteBuilder, x: Value) -> Value:
    """Abs(-x) => Abs(x)"""
    return g.Abs(x)
