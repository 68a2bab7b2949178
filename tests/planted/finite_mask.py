"""Minus infinity in a mask becomes a large negative number. Wrong where a row is masked as a whole."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x, bool[N,4] m) => (float[N,4] y, float[N,4] z) <bool[4] first = {1,0,0,0}> {
    t = Tanh(x)
    a = Where(m, t, inf)
    y = Softmax(a)
    k = Or(m, first)
    b = Where(k, t, inf)
    i = Identity(b)
    z = Softmax(i)
}"""
WEIGHTS = {"inf": np.array(-np.inf, np.float32)}
WRONG = (("finite_mask", "a"),)
WHY = "wrong"
AFTER = {"Or": 1, "Softmax": 2, "Tanh": 1, "Where": 2}


@rule(lambda g, c, x, m: g.Where(c, x, m))
def finite_mask(g: RewriteBuilder, c: Value, x: Value, m: Value) -> Value:
    """Where(c, x, -infinity) => Where(c, x, -10000)"""
    require(np.isneginf(m.const).all(), "another number")
    return g.Where(c, x, g.const(np.float32(-10000)))
