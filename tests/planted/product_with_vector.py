"""A factor behind a MatMul goes into its weight; a weight of one axis has it on the axis that is summed over."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[3,3] x) => (float[3] y, float[3,3] z) {
    a = MatMul(x, v)
    y = Mul(a, s)
    n = Neg(x)
    b = MatMul(n, w)
    i = Identity(b)
    z = Mul(i, s)
}"""
WEIGHTS = {
    "s": np.array([0.5, -1, 0.25], np.float32),
    "v": np.array([0.25, 0.5, -0.125], np.float32),
    "w": np.linspace(-0.1, 0.2, 9, dtype=np.float32).reshape(3, 3),
}
WRONG = (("scale_product", "y"),)
WHY = "wrong"
AFTER = {"MatMul": 2, "Mul": 1, "Neg": 1}


@rule(lambda g, x, w, s: g.Mul(g.MatMul(x, w), s))
def scale_product(g: RewriteBuilder, x: Value, w: Value, s: Value) -> Value:
    """MatMul(x, w) * s => MatMul(x, w * s)"""
    require(s.const.ndim == 1 and s.const.shape[0] == w.const.shape[-1], "not one number for each column")
    return g.MatMul(x, g.const(w.const * s.const))
