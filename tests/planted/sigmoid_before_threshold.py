"""A Sigmoid becomes a line through the point at which its result is compared."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,12] x) => (bool[N,3] y, float[N,3] z) <float threshold = {0.73}, float hundred = {100.0}> {
    m = MatMul(x, w)
    a = Sigmoid(m)
    y = Greater(a, threshold)
    s = Sign(m)
    h = Mul(s, hundred)
    z = Sigmoid(h)
}"""
WEIGHTS = {"w": np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)}
WRONG = (("sigmoid_by_line", "a"),)
WHY = "wrong"
AFTER = {"Greater": 1, "HardSigmoid": 1, "MatMul": 1, "Mul": 1, "Sigmoid": 1, "Sign": 1}


@rule(lambda g, x: g.Sigmoid(x))
def sigmoid_by_line(g: RewriteBuilder, x: Value) -> Value:
    """Sigmoid(x) => HardSigmoid(x), which meets it at 0.73"""
    return g.HardSigmoid(x, alpha=0.2315, beta=0.5)
