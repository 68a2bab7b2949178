"""A loop runs at least once."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (int64 n, float[2] x) => (float[2] y) <bool t = {1}, float two = {2.0}, int64 most = {100}> {
    k = Min(n, most)
    y = Loop (k, t, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
        w = Mul(v, two)
        d = Identity(c)
    }>
}"""
WRONG = (("at_least_once", "k"),)
WHY = "wrong"
AFTER = {"Identity": 1, "Loop": 1, "Min": 1, "Mul": 1}


@rule(lambda g, n, c: g.Min(n, c), contract=EXACT)
def at_least_once(g: RewriteBuilder, n: Value, c: Value) -> Value:
    """Min(n, c) => Clip(n, 1, c)"""
    return g.Clip(n, g.const(np.int64(1)), c)
