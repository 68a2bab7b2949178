"""The defaults of inputs that a caller may set are taken for constants. Wrong in two places, right in one.

Known from several simplifiers, which drop such inputs.
"""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,3] x, float[1] w, float v) => (float[N,3] y, float[N,3] u, float[N,3] z) <float[1] one = {1.0}> {
    y = Mul(x, w)
    u = Mul(x, v)
    n = Neg(x)
    i = Identity(n)
    z = Mul(i, one)
}"""
WEIGHTS = {"w": np.ones(1, np.float32), "v": np.ones((), np.float32)}
WRONG = (("multiply_by_one", "y"), ("multiply_by_one", "u"))
WHY = "wrong"
AFTER = {"Mul": 2, "Neg": 1}


@rule(lambda g, x, w: g.Mul(x, w), contract=EXACT)
def multiply_by_one(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """x * 1 => x"""
    known = g.graph.input_defaults.get(w) or w.tensor
    require(known is not None and known.size == 1 and (known.array == 1).all(), "not 1")
    return x
