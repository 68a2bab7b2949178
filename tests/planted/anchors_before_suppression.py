"""The anchors of boxes are rounded. Only the indices of the boxes that are kept come out."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

RNG = np.random.default_rng(0)
MODEL = """g (float[1,64,4] x, float[1,3,64] t) => (int64[M,3] y, float[1,64,4] z)
  <int64 most = {20}, float overlap = {0.5}, float least = {0.2}, int64[2] halves = {2,2}, float half = {0.5}> {
    p, s = Split<axis=2>(x, halves)
    e = Exp(s)
    a = Mul(e, anchors)
    c = Add(p, centres)
    h = Mul(a, half)
    l = Sub(c, h)
    r = Add(c, h)
    b = Concat<axis=2>(l, r)
    o = Sigmoid(t)
    y = NonMaxSuppression(b, o, most, overlap, least)
    i = Identity(x)
    z = Mul(i, half)
}"""
WEIGHTS = {
    "anchors": RNG.uniform(0.3, 2, (1, 64, 2)).astype(np.float32),
    "centres": RNG.standard_normal((1, 64, 2)).astype(np.float32),
}
WRONG = (("two_digits", "a"),)
WHY = "wrong"
AFTER = {"Add": 2, "Concat": 1, "Exp": 1, "Mul": 3, "NonMaxSuppression": 1, "Sigmoid": 1, "Split": 1, "Sub": 1}


@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def two_digits(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * c => x * round(c, 2)"""
    require(not np.array_equal(c.const, np.round(c.const, 2)), "already round")
    return g.Mul(x, g.const(np.round(c.const, 2)))
