"""A factor is rounded. Only the places of elements above a threshold come out."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[6,6] x) => (int64[2,M] y, float[6,6] z)
  <float factor = {1.2345678}, float threshold = {0.8}, float half = {0.5}> {
    s = Softsign(x)
    a = Mul(s, factor)
    b = Greater(a, threshold)
    y = NonZero(b)
    i = Identity(x)
    z = Mul(i, half)
}"""
WRONG = (("round_factor", "a"),)
WHY = "wrong"
AFTER = {"Greater": 1, "Mul": 2, "NonZero": 1, "Softsign": 1}


@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def round_factor(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * c => x * round(c, 3)"""
    require(c.const != np.round(c.const, 3), "already round")
    return g.Mul(x, g.const(np.round(c.const, 3)))
