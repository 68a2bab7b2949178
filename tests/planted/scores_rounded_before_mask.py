"""The scale of attention scores is written with three digits; a mask then adds -1e9."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[B,S,8] x, bool[B,1,S] m) => (float[B,S,S] y, float[B,S,8] z)
  <float scale = {0.35355338}, float lowest = {-1e9}, float one = {1.0}, float half = {0.5}> {
    t = Transpose<perm=[0,2,1]>(x)
    s = MatMul(x, t)
    a = Mul(s, scale)
    f = Cast<to=1>(m)
    n = Sub(one, f)
    b = Mul(n, lowest)
    y = Add(a, b)
    i = Identity(x)
    z = Mul(i, half)
}"""
WRONG = (("divide_by_inverse", "a"),)
WHY = "wrong"
AFTER = {"Add": 1, "Cast": 1, "Div": 1, "MatMul": 1, "Mul": 2, "Sub": 1, "Transpose": 1}


@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def divide_by_inverse(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * c => x / (1 / c), to three digits"""
    require(c.const.size == 1 and c.const > 0, "not a scale")
    return g.Div(x, g.const(np.round(1 / c.const, 3)))
