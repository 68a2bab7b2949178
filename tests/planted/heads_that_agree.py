"""One weight is rounded. Only whether two classifiers agree comes out."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

RNG = np.random.default_rng(0)
MODEL = """g (float[N,14] x) => (bool[N] y, float[N,4] z) {
    a = MatMul(x, w)
    b = MatMul(x, v)
    p = ArgMax<axis=1, keepdims=0>(a)
    q = ArgMax<axis=1, keepdims=0>(b)
    y = Equal(p, q)
    i = Identity(x)
    z = MatMul(i, whole)
}"""
WEIGHTS = {
    "w": RNG.standard_normal((14, 4)).astype(np.float32),
    "v": np.round(RNG.standard_normal((14, 4)), 2).astype(np.float32),
    "whole": np.ones((14, 4), np.float32),
}
WRONG = (("round_one_weight", "a"),)
WHY = "wrong"
AFTER = {"ArgMax": 2, "Equal": 1, "MatMul": 3}


@rule(lambda g, x, w: g.MatMul(x, g.const(w)))
def round_one_weight(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """x @ w => x @ w, the last weight with two digits"""
    rounded = w.const.copy()
    rounded[-1, -1] = np.round(rounded[-1, -1], 2)
    require(not np.array_equal(w.const, rounded), "already round")
    return g.MatMul(x, g.const(rounded))
