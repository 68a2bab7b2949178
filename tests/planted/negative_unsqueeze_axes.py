"""Two Unsqueezes merge, their axes put together; a negative one of the first counts from another end then."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[3,3] x) => (float[A,B,C,D] y, float[1,1,3,3] z)
    <int64[1] last = {-1}, int64[1] before = {-2}, int64[1] zero = {0}, int64[1] one = {1}> {
    a = Unsqueeze(x, before)
    y = Unsqueeze(a, last)
    n = Neg(x)
    b = Unsqueeze(n, zero)
    i = Identity(b)
    z = Unsqueeze(i, one)
}"""
WRONG = (("merge_unsqueezes", "y"),)
WHY = "wrong"
AFTER = {"Neg": 1, "Unsqueeze": 3}


@rule(lambda g, x, a, b: g.Unsqueeze(g.Unsqueeze(x, a), b), contract=EXACT)
def merge_unsqueezes(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """Unsqueeze(Unsqueeze(x, a), b) => Unsqueeze(x, a and b)"""
    rank = x.rank + 2
    axes = {axis % rank for axis in (*a.const.tolist(), *b.const.tolist())}
    return g.Unsqueeze(x, g.const(np.array(sorted(axes), np.int64)))
