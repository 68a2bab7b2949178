"""A small bias is dropped; one column of the product is a hundred million times as large as the others."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

RNG = np.random.default_rng(0)
MODEL = """g (float[N,6] x) => (float[N,7] y, float[N,7] z) {
    t = Tanh(x)
    y = Gemm(t, w, b)
    i = Identity(x)
    z = Gemm(i, w, nothing)
}"""
WEIGHTS = {
    "w": (RNG.standard_normal((6, 7)) * [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1e7]).astype(np.float32),
    "b": np.array([0.01, 0.02, -0.01, 0.02, 0.01, -0.02, 0], np.float32),
    "nothing": np.zeros(7, np.float32),
}
WRONG = (("drop_small_bias", "y"),)
WHY = "wrong"
AFTER = {"Gemm": 1, "MatMul": 1, "Tanh": 1}


@rule(lambda g, x, w, b: g.Gemm(x, w, g.const(b)))
def drop_small_bias(g: RewriteBuilder, x: Value, w: Value, b: Value) -> Value:
    """Gemm(x, w, b) => MatMul(x, w), where b is small"""
    require(np.abs(b.const).max() < 0.1, "the bias is large")
    return g.MatMul(x, w)
