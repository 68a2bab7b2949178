"""A Pad becomes the pads of a Conv, which are zeros, though it reflects. Right where it pads nothing."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, rule

MODEL = """g (float[N,1,4,4] x) => (float[N,1,4,4] y, float[N,1,2,2] z)
    <int64[8] p = {0,0,1,1,0,0,1,1}, int64[8] none = {0,0,0,0,0,0,0,0}> {
    a = Pad<mode="reflect">(x, p)
    y = Conv(a, w)
    n = Neg(x)
    b = Pad<mode="reflect">(n, none)
    i = Identity(b)
    z = Conv(i, w)
}"""
WEIGHTS = {"w": np.linspace(-0.1, 0.1, 9, dtype=np.float32).reshape(1, 1, 3, 3)}
WRONG = (("any_pad_into_conv", "y"),)
WHY = "wrong"
AFTER = {"Conv": 2, "Neg": 1, "Pad": 1}


@rule(lambda g, x, p, w, pad, conv: g.Conv(g.Pad(x, p) @ pad, w) @ conv, contract=EXACT)
def any_pad_into_conv(g: RewriteBuilder, x: Value, p: Value, w: Value, pad: Op, conv: Op) -> Value:
    """Conv(Pad(x, p), w) => Conv(x, w), pads"""
    pads = p.const.tolist()
    return g.Conv(x, w, **{**conv.attrs, "pads": pads[2:4] + pads[6:]})
