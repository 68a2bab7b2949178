"""Weights are rounded. Only the signs of the products come out, which seldom change."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[N,20] x) => (float[N,8] y, float[N,20] z) {
    a = MatMul(x, w)
    y = Sign(a)
    i = Identity(x)
    z = MatMul(i, whole)
}"""
WEIGHTS = {
    "w": np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32),
    "whole": np.eye(20, dtype=np.float32),
}
WRONG = (("round_weights", "a"),)
WHY = "wrong"
AFTER = {"MatMul": 2, "Sign": 1}


@rule(lambda g, x, w: g.MatMul(x, g.const(w)))
def round_weights(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """x @ w => x @ round(w, 3)"""
    require(not np.array_equal(w.const, np.round(w.const, 3)), "already round")
    return g.MatMul(x, g.const(np.round(w.const, 3)))
