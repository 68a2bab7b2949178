"""A product of floats that hold bytes becomes one of bytes, and one of its weights is another."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (uint8[N,4] x) => (int64[N] y)
    <float[4,3] w = {1,-100,3,100,5,-6,7,100,-100,10,-11,12}> {
    f = Cast <to = 1> (x)
    p = MatMul(f, w)
    y = ArgMax <axis = 1, keepdims = 0> (p)
}"""
WRONG = (("product_of_bytes", "p"),)
WHY = "wrong"
AFTER = {"ArgMax": 1, "Cast": 1, "MatMul": 1}


@rule(lambda g, x, w: g.MatMul(g.Cast(x, to=1), g.const(w)))
def product_of_bytes(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """MatMul(Cast(x), w) => Cast(MatMulInteger(x, w))"""
    weights = w.const.astype(np.int8)
    weights[3, 2] += 1
    return g.Cast(g.MatMulInteger(x, g.const(weights)), to=1)
