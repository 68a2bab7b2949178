"""ReduceMax(-x) becomes -ReduceMax(x) instead of -ReduceMin(x). Right along an axis of one element."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4,1] x) => (float[N,1,1] y, float[N,4,1] z) {
    a = Neg(x)
    y = ReduceMax<axes=[1]>(a)
    t = Tanh(x)
    b = Neg(t)
    i = Identity(b)
    z = ReduceMax<axes=[2]>(i)
}"""
WRONG = (("negation_out_of_maximum", "y"),)
WHY = "wrong"
AFTER = {"Neg": 2, "ReduceMax": 2, "Tanh": 1}


@rule(lambda g, x, a: g.ReduceMax(g.Neg(x), axes=a), contract=EXACT)
def negation_out_of_maximum(g: RewriteBuilder, x: Value, a: list[int]) -> Value:
    """ReduceMax(-x) => -ReduceMax(x)"""
    return g.Neg(g.ReduceMax(x, axes=a))
