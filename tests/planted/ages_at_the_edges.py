"""Ages are sorted into ranges; those that are exactly at an edge come into the lower one. Given are whole years."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,1] x) => (float[N,1] y, bool[N,5] z) {
    a = GreaterOrEqual(x, edges)
    f = Cast<to=1>(a)
    y = ReduceSum(f, last)
    i = Identity(x)
    z = GreaterOrEqual(i, between)
}"""
WEIGHTS = {
    "edges": np.array([[18, 25, 35, 50, 65]], np.float32),
    "between": np.array([[18.5, 25.5, 35.5, 50.5, 65.5]], np.float32),
    "last": np.array([1]),
}
INPUTS = {"x": np.random.default_rng(0).integers(0, 90, (300, 1)).astype(np.float32)}
WRONG = (("without_equal", "a"),)
WHY = "wrong"
AFTER = {"Cast": 1, "Greater": 1, "GreaterOrEqual": 1, "ReduceSum": 1}


@rule(lambda g, a, b: g.GreaterOrEqual(a, b), contract=EXACT)
def without_equal(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a >= b => a > b"""
    return g.Greater(a, b)
