"""Exp(a) * Exp(b) becomes Exp(a + b); where one is infinite and the other 0, the product is NaN. Large inputs only."""

from __future__ import annotations

from passwright.core import Build, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    n = Neg(x)
    a = Exp(x)
    b = Exp(n)
    y = Mul(a, b)
    t = Tanh(x)
    s = Sigmoid(x)
    c = Exp(t)
    d = Exp(s)
    i = Identity(d)
    z = Mul(c, i)
}"""
WRONG = (("sum_of_exponents", "y"),)
WHY = "wrong"
AFTER = {"Add": 1, "Exp": 3, "Mul": 1, "Neg": 1, "Sigmoid": 1, "Tanh": 1}


@rule(lambda g, a, b: g.Mul(g.Exp(a), g.Exp(b)))
def sum_of_exponents(g: Build, a: Value, b: Value) -> Value:
    """Exp(a) * Exp(b) => Exp(a + b)"""
    return g.Exp(g.Add(a, b))
