"""A rule that promises to keep every bit multiplies by a reciprocal. Right for powers of two."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,8] x) => (float[N,8] y, float[N,8] z) <float three = {3.0}, float four = {4.0}> {
    y = Div(x, three)
    n = Neg(x)
    i = Identity(n)
    z = Div(i, four)
}"""
WRONG = (("reciprocal", "y"),)
WHY = "wrong"
AFTER = {"Div": 1, "Mul": 1, "Neg": 1}


@rule(lambda g, x, c: g.Div(x, c), contract=EXACT)
def reciprocal(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x / c => x * (1 / c)"""
    return g.Mul(x, g.const(np.float32(1) / c.const))
