"""A batch norm gets the default epsilon. Only the class of each pixel comes out."""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,3,12,12] x) => (int64[N,1,12,12] y, float[N,3,12,12] z) {
    t = Tanh(x)
    a = BatchNormalization<epsilon=1e-3>(t, s, b, m, v)
    y = ArgMax<axis=1>(a)
    i = Identity(t)
    z = BatchNormalization<epsilon=1e-5>(i, s, b, m, v)
}"""
WEIGHTS = {
    "s": np.array([1, 0.5, 0.8], np.float32),
    "b": np.array([0.1, -0.2, 0.3], np.float32),
    "m": np.array([0.2, 0.1, -0.3], np.float32),
    "v": np.array([0.3, 0.5, 0.8], np.float32),
}
WRONG = (("default_epsilon", "a"),)
WHY = "wrong"
AFTER = {"ArgMax": 1, "BatchNormalization": 2, "Tanh": 1}


@rule(lambda g, x, s, b, m, v, op: g.BatchNormalization(x, s, b, m, v) @ op)
def default_epsilon(g: RewriteBuilder, x: Value, s: Value, b: Value, m: Value, v: Value, op: Op) -> Value:
    """BatchNormalization(x) => BatchNormalization(x), with the default epsilon"""
    require(op.attr("epsilon", 1e-5) > 2e-5, "the default")
    return g.BatchNormalization(x, s, b, m, v)
