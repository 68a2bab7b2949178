"""x < 1 becomes x <= 1.

Rounding moves an arbitrary number near 1 to the other side too, but the given ones are 0 and 1.
"""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

RNG = np.random.default_rng(0)
MODEL = """g (float[N,8] x) => (float[N,4] y, bool[N,8] z)
  <float one = {1.0}, float half = {0.5}, float scale = {0.37}> {
    a = Less(x, one)
    f = Cast<to=1>(a)
    s = Mul(f, scale)
    y = MatMul(s, w)
    i = Identity(x)
    z = Less(i, half)
}"""
WEIGHTS = {"w": RNG.standard_normal((8, 4)).astype(np.float32)}
INPUTS = {"x": np.eye(8, dtype=np.float32)[RNG.integers(0, 8, 200)]}
WRONG = (("or_equal", "a"),)
WHY = "wrong"
AFTER = {"Cast": 1, "Less": 1, "LessOrEqual": 1, "MatMul": 1, "Mul": 1}


@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def or_equal(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a < b => a <= b"""
    return g.LessOrEqual(a, b)
