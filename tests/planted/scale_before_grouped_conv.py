"""A factor for each channel moves into the Conv behind it; of a grouped Conv all groups get that of the first."""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, rule

MODEL = """g (float[N,4,3,3] x) => (float[N,4,3,3] y, float[N,2,3,3] z) {
    a = Mul(x, s)
    y = Conv<group=2>(a, w)
    n = Neg(x)
    b = Mul(n, s)
    i = Identity(b)
    z = Conv(i, v)
}"""
WEIGHTS = {
    "s": np.array([0.5, -1, 0.25, 1], np.float32).reshape(4, 1, 1),
    "w": np.linspace(-0.1, 0.2, 8, dtype=np.float32).reshape(4, 2, 1, 1),
    "v": np.linspace(0.2, -0.1, 8, dtype=np.float32).reshape(2, 4, 1, 1),
}
WRONG = (("scale_into_conv", "y"),)
WHY = "wrong"
AFTER = {"Conv": 2, "Mul": 1, "Neg": 1}


@rule(lambda g, x, s, w, conv: g.Conv(g.Mul(x, s), w) @ conv)
def scale_into_conv(g: RewriteBuilder, x: Value, s: Value, w: Value, conv: Op) -> Value:
    """Conv(x * s, w) => Conv(x, w * s)"""
    factors = s.const.reshape(1, -1, 1, 1)[:, : w.const.shape[1]]
    return g.Conv(x, g.const(w.const * factors), **conv.attrs)
