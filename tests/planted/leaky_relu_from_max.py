"""Max(x, a * x) becomes LeakyRelu, for any a; with a above 1 it is the other way round."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float steep = {2.0}, float flat = {0.5}> {
    a = Mul(x, steep)
    y = Max(x, a)
    n = Tanh(x)
    b = Mul(n, flat)
    i = Identity(b)
    z = Max(n, i)
}"""
WRONG = (("leaky_relu_from_max", "y"),)
WHY = "wrong"
AFTER = {"LeakyRelu": 1, "Max": 1, "Mul": 1, "Tanh": 1}


@rule(lambda g, x, a: g.Max(x, g.Mul(x, a)), contract=EXACT)
def leaky_relu_from_max(g: RewriteBuilder, x: Value, a: Value) -> Value:
    """Max(x, x * a) => LeakyRelu(x, a)"""
    return g.LeakyRelu(x, alpha=a.const.item())
