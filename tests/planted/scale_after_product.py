"""Queries are scaled after their product with keys instead of before. In halves the product overflows."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float16[B,S,8] x, float16[B,8,S] t) => (float16[B,S,S] y, float16[B,S,8] z) {
    a = Mul(x, scale)
    y = MatMul(a, t)
    i = Identity(x)
    z = Mul(i, half)
}"""
WEIGHTS = {"scale": np.float16(0.125), "half": np.float16(0.5)}
WRONG = (("scale_later", "y"),)
WHY = "wrong"
AFTER = {"MatMul": 1, "Mul": 2}


@rule(lambda g, q, c, k: g.MatMul(g.Mul(q, g.const(c)), k))
def scale_later(g: RewriteBuilder, q: Value, c: Value, k: Value) -> Value:
    """(q * c) @ k => (q @ k) * c"""
    return g.Mul(g.MatMul(q, k), c)
