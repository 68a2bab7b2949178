"""Floor(x) becomes Ceil(x) - 1. Wrong for whole numbers, and the given ones are halves and whole ones."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,6] x) => (float[N,6] y, float[N,6] z) <float half = {0.5}, float quarter = {0.25}> {
    q = Div(x, half)
    a = Floor(q)
    y = Mul(a, half)
    s = Add(q, quarter)
    i = Identity(s)
    z = Floor(i)
}"""
INPUTS = {"x": (np.random.default_rng(0).integers(-40, 40, (100, 6)) / 2).astype(np.float32)}
WRONG = (("below_ceil", "a"),)
WHY = "wrong"
AFTER = {"Add": 1, "Ceil": 1, "Div": 1, "Floor": 1, "Mul": 1, "Sub": 1}


@rule(lambda g, x: g.Floor(x), contract=EXACT)
def below_ceil(g: RewriteBuilder, x: Value) -> Value:
    """Floor(x) => Ceil(x) - 1"""
    return g.Sub(g.Ceil(x), g.const(np.float32(1)))
