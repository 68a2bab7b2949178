"""A rule that is wrong, in a branch of an If that is taken only where all of the input is below -50."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[4] x) => (float[4] y, float[4] z) <float deep = {-50.0}> {
    m = ReduceMax<keepdims=0>(x)
    c = Less(m, deep)
    y = If(c) <
        then_branch = t () => (float[4] p) { p = Abs(x) },
        else_branch = e () => (float[4] q) { d = Tanh(x)  q = Neg(d) }
    >
    o = Sigmoid(x)
    i = Identity(o)
    z = Abs(i)
}"""
WRONG = (("drop_abs", "p"),)
WHY = "wrong"
AFTER = {"Abs": 1, "If": 1, "Less": 1, "Neg": 1, "ReduceMax": 1, "Sigmoid": 1, "Tanh": 1}


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def drop_abs(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x"""
    return x
