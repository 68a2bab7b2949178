"""A Pad becomes the pads of a Conv, ends first; right where they are as wide as the beginnings."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, rule

MODEL = """g (float[N,1,5,5] x) => (float[N,1,5,5] y, float[N,1,5,5] z)
    <int64[8] uneven = {0,0,2,0,0,0,0,2}, int64[8] even = {0,0,1,1,0,0,1,1}> {
    a = Pad(x, uneven)
    y = Conv(a, w)
    n = Neg(x)
    b = Pad(n, even)
    i = Identity(b)
    z = Conv(i, w)
}"""
WEIGHTS = {"w": np.linspace(-0.1, 0.1, 9, dtype=np.float32).reshape(1, 1, 3, 3)}
WRONG = (("pad_into_conv", "y"),)
WHY = "wrong"
AFTER = {"Conv": 2, "Neg": 1, "Pad": 1}


@rule(lambda g, x, p, w, conv: g.Conv(g.Pad(x, p), w) @ conv, contract=EXACT)
def pad_into_conv(g: RewriteBuilder, x: Value, p: Value, w: Value, conv: Op) -> Value:
    """Conv(Pad(x, p), w) => Conv(x, w), pads"""
    pads = p.const.tolist()
    return g.Conv(x, w, **{**conv.attrs, "pads": pads[6:] + pads[2:4]})
