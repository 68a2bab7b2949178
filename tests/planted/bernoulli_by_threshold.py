"""A Bernoulli becomes a comparison with a half, its most likely result."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,8] x) => (float[N,8] y, float[N,8] z) {
    s = Sigmoid(x)
    y = Bernoulli(s)
    n = Identity(x)
    z = Exp(n)
}"""
WRONG = (("most_likely", "y"),)
WHY = "wrong"
AFTER = {"Bernoulli": 1, "Exp": 1, "Sigmoid": 1}


@rule(lambda g, p: g.Bernoulli(p))
def most_likely(g: RewriteBuilder, p: Value) -> Value:
    """Bernoulli(p) => p > 0.5"""
    return g.Cast(g.Greater(p, g.const(np.float32(0.5))), to=1)
