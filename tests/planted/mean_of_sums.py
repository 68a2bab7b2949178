"""The Mean of three is taken for half their sum. Right for two."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x, float[N,4] t) => (float[N,4] y, float[N,4] z) {
    n = Neg(x)
    y = Mean(x, n, t)
    s = Tanh(x)
    u = Tanh(t)
    i = Identity(u)
    z = Mean(s, i)
}"""
WRONG = (("half_the_sum", "y"),)
WHY = "wrong"
AFTER = {"Mean": 1, "Mul": 1, "Neg": 1, "Sum": 1, "Tanh": 2}


@rule(lambda g, xs: g.Mean(*xs))
def half_the_sum(g: RewriteBuilder, xs: tuple[Value, ...]) -> Value:
    """Mean(*xs) => Sum(*xs) / 2"""
    return g.Mul(g.Sum(*xs), g.const(np.float32(0.5)))
