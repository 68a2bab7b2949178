"""A rule gives an attribute a value that cannot be written."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    y = Relu(x)
    a = Identity(x)
    z = Exp(a)
}"""
WRONG = (("leaky", "y"),)
WHY = "invalid"
AFTER = {"Exp": 1, "Relu": 1}


@rule(lambda g, x: g.Relu(x))
def leaky(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => LeakyRelu(x)"""
    return g.LeakyRelu(x, alpha=object())
