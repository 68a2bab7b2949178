"""A product is computed in halves. onnxruntime's CPU provider removes the casts, so that its result shows nothing."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from passwright.core import RewriteBuilder, Value, require, rule

RNG = np.random.default_rng(0)
MODEL = """g (float[N,8] x) => (float[N,8] y, float[N,8] z) {
    m = MatMul(x, w)
    a = Mul(m, m)
    y = Add(a, b)
    i = Identity(x)
    z = Neg(i)
}"""
WEIGHTS = {
    "w": RNG.standard_normal((8, 8)).astype(np.float32),
    "b": RNG.standard_normal(8).astype(np.float32),
}
WRONG = (("in_half", "a"),)
WHY = "wrong"
AFTER = {"Add": 1, "MatMul": 1, "Mul": 1, "Neg": 1}


@rule(lambda g, a, b: g.Mul(a, b))
def in_half(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a * b => float(half(a) * half(b))"""
    require(a.dtype == TensorProto.FLOAT, "not in single precision")
    halves = (g.Cast(v, to=TensorProto.FLOAT16) for v in (a, b))
    return g.Cast(g.Mul(*halves), to=TensorProto.FLOAT)
