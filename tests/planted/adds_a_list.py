"""A rule builds an op with a list among its inputs, which is not a value."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    y = Relu(x)
    a = Identity(x)
    z = Exp(a)
}"""
WRONG = (("maximum", "y"),)
WHY = "raised"
AFTER = {"Exp": 1, "Relu": 1}


@rule(lambda g, x: g.Relu(x))
def maximum(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => Max(x, [0])"""
    return g.Max(x, [0.0])
