"""The weights of a classifier are rounded. Only its best class comes out, which is hardly ever another one."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

RNG = np.random.default_rng(0)
MODEL = """g (float[N,32] x) => (int64[N] y, float[N,10] z) {
    r = Relu(x)
    a = Gemm(r, w, b)
    s = Softmax<axis=1>(a)
    y = ArgMax<axis=1, keepdims=0>(s)
    i = Identity(r)
    z = Gemm(i, whole, b)
}"""
WEIGHTS = {
    "w": RNG.standard_normal((32, 10)).astype(np.float32),
    "b": RNG.standard_normal(10).astype(np.float32),
    "whole": np.ones((32, 10), np.float32),
}
WRONG = (("three_digits", "a"),)
WHY = "wrong"
AFTER = {"ArgMax": 1, "Gemm": 2, "Relu": 1, "Softmax": 1}


@rule(lambda g, x, w, b: g.Gemm(x, g.const(w), b))
def three_digits(g: RewriteBuilder, x: Value, w: Value, b: Value) -> Value:
    """Gemm(x, w, b) => Gemm(x, round(w, 3), b)"""
    require(not np.array_equal(w.const, np.round(w.const, 3)), "already round")
    return g.Gemm(x, g.const(np.round(w.const, 3)), b)
