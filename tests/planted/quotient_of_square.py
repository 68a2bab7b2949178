"""x * x / x becomes x: 0 gives NaN, tiny numbers underflow, and extreme ones overflow. Right between 1 and 2."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float one = {1.0}> {
    b = Abs(x)
    a = Mul(b, b)
    y = Div(a, b)
    s = Sigmoid(x)
    p = Add(s, one)
    c = Mul(p, p)
    i = Identity(c)
    z = Div(i, p)
}"""
WRONG = (("cancel_quotient", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Add": 1, "Div": 1, "Mul": 1, "Sigmoid": 1}


@rule(lambda g, x: g.Div(g.Mul(x, x), x))
def cancel_quotient(g: RewriteBuilder, x: Value) -> Value:
    """x * x / x => x"""
    return x
