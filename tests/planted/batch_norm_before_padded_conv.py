"""A BatchNormalization moves into the Conv behind it, its shift into the bias; at the border the Conv sees zeros.

Right without pads.
"""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, rule

MODEL = """g (float[N,2,5,5] x) => (float[N,3,5,5] y, float[N,3,3,3] z) {
    a = BatchNormalization(x, s, t, m, v)
    y = Conv<pads=[1,1,1,1]>(a, w)
    n = Neg(x)
    b = BatchNormalization(n, s, t, m, v)
    i = Identity(b)
    z = Conv(i, w)
}"""
WEIGHTS = {
    "s": np.array([1, 2], np.float32),
    "t": np.array([3, -1], np.float32),
    "m": np.array([0.5, 1], np.float32),
    "v": np.array([1, 4], np.float32),
    "w": np.linspace(-1, 2, 54, dtype=np.float32).reshape(3, 2, 3, 3),
}
WRONG = (("batch_norm_into_next_conv", "y"),)
WHY = "wrong"
AFTER = {"BatchNormalization": 1, "Conv": 2, "Neg": 1}


@rule(lambda g, x, s, t, m, v, w, bn, conv: g.Conv(g.BatchNormalization(x, s, t, m, v) @ bn, w) @ conv)
def batch_norm_into_next_conv(
    g: RewriteBuilder, x: Value, s: Value, t: Value, m: Value, v: Value, w: Value, bn: Op, conv: Op
) -> Value:
    """Conv(x * k + c, w) => Conv(x, w * k, sum(w * c))"""
    k = s.const / np.sqrt(v.const + np.float32(bn.attr("epsilon")))
    c = t.const - m.const * k
    bias = (w.const * c.reshape(1, -1, 1, 1)).sum((1, 2, 3))
    return g.Conv(x, g.const(w.const * k.reshape(1, -1, 1, 1)), g.const(bias), **conv.attrs)
