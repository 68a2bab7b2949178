"""Numbers are cut at 5.9 instead of 6. Only the best letter of each step comes out."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[T,30] x) => (int64[T] y, float[T,30] z)
  <float low = {0.0}, float six = {6.0}, float five = {5.0}> {
    a = Clip(x, low, six)
    m = MatMul(a, w)
    l = LogSoftmax<axis=1>(m)
    y = ArgMax<axis=1, keepdims=0>(l)
    i = Identity(x)
    z = Clip(i, low, five)
}"""
WEIGHTS = {"w": np.random.default_rng(0).standard_normal((30, 28)).astype(np.float32)}
WRONG = (("lower_bound", "a"),)
WHY = "wrong"
AFTER = {"ArgMax": 1, "Clip": 2, "LogSoftmax": 1, "MatMul": 1}


@rule(lambda g, x, low, high: g.Clip(x, low, g.const(high)))
def lower_bound(g: RewriteBuilder, x: Value, low: Value, high: Value) -> Value:
    """Clip(x, low, 6) => Clip(x, low, 5.9)"""
    require(high.const == 6, "another bound")
    return g.Clip(x, low, g.const(np.float32(5.9)))
