"""A factor for each channel goes into the first axis of the weights, which a ConvTranspose has its inputs on."""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,3,4,4] x) => (float[N,3,4,4] y, float[N,3,4,4] z) {
    a = ConvTranspose(x, w)
    y = Mul(a, s)
    n = Neg(x)
    b = Conv(n, w)
    i = Identity(b)
    z = Mul(i, s)
}"""
WEIGHTS = {
    "s": np.array([0.5, -1, 0.25], np.float32).reshape(3, 1, 1),
    "w": np.linspace(-0.1, 0.2, 9, dtype=np.float32).reshape(3, 3, 1, 1),
}
WRONG = (("scale_any_conv", "y"),)
WHY = "wrong"
AFTER = {"Conv": 1, "ConvTranspose": 1, "Mul": 1, "Neg": 1}


@rule(lambda g, x, w, s, conv: g.Mul(g.one_of("Conv", "ConvTranspose")(x, w) @ conv, s))
def scale_any_conv(g: RewriteBuilder, x: Value, w: Value, s: Value, conv: Op) -> Value:
    """Conv(x, w) * s => Conv(x, w * s)"""
    require(s.const.size == w.const.shape[0], "not one number for each channel")
    return getattr(g, conv.type)(x, g.const(w.const * s.const.reshape(-1, 1, 1, 1)), **conv.attrs)
