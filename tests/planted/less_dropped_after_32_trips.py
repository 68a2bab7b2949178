"""A bound of 32 iterations is dropped."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (int64 n, float x) => (float y) <bool t = {1}, int64 most = {32}, float one = {1.0}> {
    y = Loop (n, t, x) <body = b (int64 i, bool c, float v) => (bool d, float w) {
        w = Add(v, one)
        d = Less(i, most)
    }>
}"""
WRONG = (("always", "d"),)
WHY = "wrong"
AFTER = {"Add": 1, "Less": 1, "Loop": 1}


@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def always(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a < c => true"""
    return g.const(np.bool_(True))
