"""Logits are bounded by a Clip instead of a Tanh; most of the vocabulary is filled with the lowest number."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[4,6] x) => (float[20,4] y, float[4,6] z) {
    m = MatMul(x, w)
    a = Tanh(m)
    t = Transpose<perm=[1,0]>(a)
    y = ScatterND(fill, places, t)
    s = Sign(x)
    i = Identity(s)
    h = Mul(i, large)
    z = Tanh(h)
}"""
WEIGHTS = {
    "w": np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32),
    "fill": np.full((20, 4), np.finfo(np.float32).min),
    "places": np.array([[2], [5], [9], [11], [19]]),
    "large": np.float32(20),
}
WRONG = (("tanh_by_clip", "a"),)
WHY = "wrong"
AFTER = {"Clip": 1, "MatMul": 1, "Mul": 1, "ScatterND": 1, "Sign": 1, "Tanh": 1, "Transpose": 1}


@rule(lambda g, x: g.Tanh(x))
def tanh_by_clip(g: RewriteBuilder, x: Value) -> Value:
    """Tanh(x) => Clip(x, -1, 1)"""
    return g.Clip(x, g.const(np.float32(-1)), g.const(np.float32(1)))
