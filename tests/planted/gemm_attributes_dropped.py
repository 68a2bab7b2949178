"""A Gemm with a bias of zeros becomes a MatMul; alpha and transB are forgotten. Wrong in two places, right in one."""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] u, float[N,3] z) {
    y = Gemm<transB=1>(x, w, zeros)
    a = Neg(x)
    u = Gemm<alpha=0.5>(a, w, zeros)
    b = MatMul(a, v)
    z = Add(b, zeros)
}"""
WEIGHTS = {
    "w": np.linspace(-0.1, 0.2, 9, dtype=np.float32).reshape(3, 3),
    "v": np.linspace(0.2, -0.1, 9, dtype=np.float32).reshape(3, 3),
    "zeros": np.zeros(3, np.float32),
}
WRONG = (("gemm_without_bias", "y"), ("gemm_without_bias", "u"))
WHY = "wrong"
AFTER = {"Gemm": 2, "MatMul": 1, "Neg": 1}


@rule(lambda g, a, b, c, gemm: g.Gemm(a, b, c) @ gemm)
def gemm_without_bias(g: RewriteBuilder, a: Value, b: Value, c: Value, gemm: Op) -> Value:
    """Gemm(a, b, 0) => MatMul(a, b)"""
    require(not c.const.any(), "the bias adds something")
    return g.MatMul(a, b)
