"""A constant of shape [W] behind a Conv is taken to have one number per channel; W equals C here.

Known from OnnxSlim.
"""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,3,4,4] x) => (float[N,4,4,4] y, float[N,4,4,4] z) <float[4] c = {1.0, 2.0, -3.0, 4.0}> {
    a = Conv(x, w)
    y = Mul(a, c)
    i = Identity(x)
    b = Conv(i, v)
    z = Mul(b, d)
}"""
WEIGHTS = {
    "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3, 1, 1),
    "v": np.linspace(0.2, -0.1, 12, dtype=np.float32).reshape(4, 3, 1, 1),
    "d": np.array([0.5, -1, 0.25, 1], np.float32).reshape(4, 1, 1),
}
WRONG = (("scale_conv", "y"),)
WHY = "wrong"
AFTER = {"Conv": 2, "Mul": 1}


@rule(lambda g, x, w, c, conv: g.Mul(g.Conv(x, w) @ conv, c))
def scale_conv(g: RewriteBuilder, x: Value, w: Value, c: Value, conv: Op) -> Value:
    """Conv(x, w) * c => Conv(x, w * c)"""
    require(c.const.size == w.const.shape[0], "not one number for each channel")
    return g.Conv(x, g.const(w.const * c.const.reshape(-1, 1, 1, 1)), **conv.attrs)
