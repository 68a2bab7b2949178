"""Indices from the end become 0, into an extent that is not known."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N] x, bool[N] c, int64[2] i) => (float[2] y) {
    a = Compress<axis = 0>(x, c)
    y = Gather(a, i)
}"""
WRONG = (("clamp", "y"),)
WHY = "wrong"
AFTER = {"Compress": 1, "Gather": 1}


@rule(lambda g, x, i: g.Gather(x, i), contract=EXACT)
def clamp(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """Gather(x, i) => Gather(x, Max(i, 0))"""
    require(i.producer is None, "computed")
    return g.Gather(x, g.Max(i, g.const(np.int64(0))))
