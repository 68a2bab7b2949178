"""A factor of halves is written with two digits; masked elements are -65504, the lowest half."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float16[N,S,8] x, bool[N,S,1] m) => (float16[N,S,8] y, float16[N,S,8] z) {
    a = Mul(x, scale)
    y = Where(m, a, lowest)
    i = Identity(x)
    z = Mul(i, half)
}"""
WEIGHTS = {"scale": np.float16(0.125), "lowest": np.float16(-65504), "half": np.float16(0.5)}
WRONG = (("two_digits", "a"),)
WHY = "wrong"
AFTER = {"Mul": 2, "Where": 1}


@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def two_digits(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * c => x * round(c, 2)"""
    require(np.round(c.const, 2) != c.const, "already round")
    return g.Mul(x, g.const(np.round(c.const, 2)))
