"""A factor behind a Conv goes into its weights and leaves out its bias. Right for a bias of 0."""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,2,3,3] x) => (float[N,2,3,3] y, float[N,2,3,3] z) <float half = {0.5}> {
    a = Conv(x, w, b)
    y = Mul(a, half)
    n = Neg(x)
    c = Conv(n, w, zeros)
    i = Identity(c)
    z = Mul(i, half)
}"""
WEIGHTS = {
    "w": np.array([0.1, 0.2, -0.1, 0.3], np.float32).reshape(2, 2, 1, 1),
    "b": np.array([1, -2], np.float32),
    "zeros": np.zeros(2, np.float32),
}
WRONG = (("scale_weights", "y"),)
WHY = "wrong"
AFTER = {"Conv": 2, "Mul": 1, "Neg": 1}


@rule(lambda g, x, w, b, s, conv: g.Mul(g.Conv(x, w, b) @ conv, s))
def scale_weights(g: RewriteBuilder, x: Value, w: Value, b: Value, s: Value, conv: Op) -> Value:
    """Conv(x, w, b) * s => Conv(x, w * s, b)"""
    require(s.const.ndim == 0, "not one number")
    return g.Conv(x, g.const(w.const * s.const), b, **conv.attrs)
