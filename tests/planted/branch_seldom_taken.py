"""A rule that is wrong, in a branch of an If that only large inputs take."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[4] x) => (float[4] y, float[4] z) <float far = {100.0}> {
    m = ReduceMax<keepdims=0>(x)
    c = Greater(m, far)
    y = If(c) <
        then_branch = t () => (float[4] p) { a = Abs(x)  b = Sqrt(a)  p = Ceil(b) },
        else_branch = e () => (float[4] q) { d = Tanh(x)  q = Neg(d) }
    >
    n = Identity(x)
    o = Sigmoid(n)
    s = Sign(o)
    i = Identity(s)
    z = Ceil(i)
}"""
WRONG = (("drop_ceil", "p"),)
WHY = "wrong"
AFTER = {
    "Abs": 1,
    "Ceil": 1,
    "Greater": 1,
    "If": 1,
    "Neg": 1,
    "ReduceMax": 1,
    "Sigmoid": 1,
    "Sign": 1,
    "Sqrt": 1,
    "Tanh": 1,
}


@rule(lambda g, x: g.Ceil(x), contract=EXACT)
def drop_ceil(g: RewriteBuilder, x: Value) -> Value:
    """Ceil(x) => x"""
    return x
