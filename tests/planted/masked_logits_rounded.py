"""Weights are rounded. A mask then sets logits to the lowest number, which is no scale for the others."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

RNG = np.random.default_rng(0)
MODEL = """g (float[B,S,16] x, bool[B,S,1] m) => (float[B,S,12] y, float[B,S,16] z) {
    a = MatMul(x, w)
    y = Where(m, a, lowest)
    i = Identity(x)
    b = MatMul(i, whole)
    z = Tanh(b)
}"""
WEIGHTS = {
    "w": RNG.standard_normal((16, 12)).astype(np.float32),
    "whole": np.eye(16, dtype=np.float32),
    "lowest": np.finfo(np.float32).min,
}
WRONG = (("round_weights", "a"),)
WHY = "wrong"
AFTER = {"MatMul": 2, "Tanh": 1, "Where": 1}


@rule(lambda g, x, w: g.MatMul(x, g.const(w)))
def round_weights(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """x @ w => x @ round(w, 1)"""
    require(not np.array_equal(w.const, np.round(w.const, 1)), "already round")
    return g.MatMul(x, g.const(np.round(w.const, 1)))
