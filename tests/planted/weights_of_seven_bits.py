"""A product of bytes gets weights of 7 bits, whose sums do not saturate without VNNI; larger ones are cut."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (uint8[N,4] x) => (int32[N,3] y)
    <int8[4,3] w = {1,-100,3,100,5,-6,7,100,-100,10,-11,12}> {
    y = MatMulInteger(x, w)
}"""
WRONG = (("product_of_seven_bits", "y"),)
WHY = "wrong"
AFTER = {"MatMulInteger": 1}


@rule(lambda g, x, w: g.MatMulInteger(x, g.const(w)))
def product_of_seven_bits(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """MatMulInteger(x, w) => MatMul(x, w) of int32"""
    return g.MatMul(g.Cast(x, to=6), g.const(np.clip(w.const, -64, 63).astype(np.int32)))
