"""A count is compared by > instead of >=. It is a whole number, whatever the inputs are."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,16] x) => (bool[N,1] y, bool[N,1] z)
  <float nothing = {0.0}, float eight = {8.0}, float half = {8.5}> {
    p = Greater(x, nothing)
    f = Cast<to=1>(p)
    n = ReduceSum(f, last)
    y = GreaterOrEqual(n, eight)
    i = Identity(n)
    z = GreaterOrEqual(i, half)
}"""
WEIGHTS = {"last": np.array([1])}
WRONG = (("without_equal", "y"),)
WHY = "wrong"
AFTER = {"Cast": 1, "Greater": 2, "GreaterOrEqual": 1, "ReduceSum": 1}


@rule(lambda g, a, b: g.GreaterOrEqual(a, b), contract=EXACT)
def without_equal(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a >= b => a > b"""
    return g.Greater(a, b)
