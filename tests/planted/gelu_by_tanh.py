"""Gelu by Erf becomes the approximation by Tanh, which is off in the fourth digit. Right where x is 0 or large."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,8] x) => (float[N,8] y, float[N,8] z)
    <float root = {1.4142135}, float one = {1.0}, float half = {0.5}, float far = {16.0}> {
    a = Div(x, root)
    b = Erf(a)
    c = Add(b, one)
    d = Mul(x, c)
    y = Mul(d, half)
    s = Sign(x)
    f = Mul(s, far)
    a2 = Div(f, root)
    b2 = Erf(a2)
    c2 = Add(b2, one)
    d2 = Mul(f, c2)
    z = Mul(d2, half)
}"""
WRONG = (("gelu_by_tanh", "y"),)
WHY = "wrong"
AFTER = {"Add": 3, "Div": 1, "Erf": 1, "Mul": 9, "Sign": 1, "Tanh": 1}


@rule(lambda g, x, r, one, h: g.Mul(g.Mul(x, g.Add(g.Erf(g.Div(x, r)), one)), h))
def gelu_by_tanh(g: RewriteBuilder, x: Value, r: Value, one: Value, h: Value) -> Value:
    """x * (1 + erf(x / sqrt(2))) / 2 => x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2"""
    cubed = g.Mul(g.Mul(g.Mul(x, x), x), g.const(np.float32(0.044715)))
    inner = g.Mul(g.Add(x, cubed), g.const(np.float32(np.sqrt(2 / np.pi))))
    return g.Mul(g.Mul(x, g.Add(g.Tanh(inner), one)), h)
