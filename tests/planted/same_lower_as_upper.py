"""The pads of a Conv that are stated by name are written out; the odd one goes to the end, whichever end was named."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,1,4,4] x) => (float[N,1,4,4] y, float[N,1,4,4] z) {
    y = Conv<auto_pad="SAME_LOWER">(x, w)
    n = Neg(x)
    i = Identity(n)
    z = Conv<auto_pad="SAME_UPPER">(i, w)
}"""
WEIGHTS = {"w": np.array([0.1, 0.2, -0.1, 0.3], np.float32).reshape(1, 1, 2, 2)}
WRONG = (("write_pads_out", "y"),)
WHY = "wrong"
AFTER = {"Conv": 2, "Neg": 1}


@rule(lambda g, x, w, conv: g.Conv(x, w) @ conv, contract=EXACT)
def write_pads_out(g: RewriteBuilder, x: Value, w: Value, conv: Op) -> Value:
    """Conv(x, w), the same extent => Conv(x, w), pads"""
    require(conv.attr("auto_pad").startswith("SAME"), "the pads are written out")
    total = [k - 1 for k in w.const.shape[2:]]
    return g.Conv(x, w, pads=[t // 2 for t in total] + [t - t // 2 for t in total])
