"""x - x becomes 0, which it is not for NaN and infinity. Those only."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float zero = {0.0}> {
    y = Sub(x, x)
    b = Greater(x, zero)
    c = Cast<to=1>(b)
    i = Sub(c, c)
    j = Identity(i)
    z = Exp(j)
}"""
WRONG = (("nothing_is_left", "y"),)
WHY = "wrong"
AFTER = {"Cast": 1, "ConstantOfShape": 1, "Exp": 1, "Greater": 1, "Shape": 1, "Sub": 1}


@rule(lambda g, x: g.Sub(x, x), contract=EXACT)
def nothing_is_left(g: RewriteBuilder, x: Value) -> Value:
    """x - x => 0"""
    return g.ConstantOfShape(g.Shape(x))
