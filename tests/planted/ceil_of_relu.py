"""Ceil(x) becomes Floor(x) + 1. Wrong for whole numbers: behind a Relu half of all numbers are 0."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,6] x) => (float[N,6] y, float[N,6] z) <float half = {0.5}> {
    r = Relu(x)
    y = Ceil(r)
    f = Floor(x)
    s = Add(f, half)
    z = Ceil(s)
}"""
WRONG = (("above_floor", "y"),)
WHY = "wrong"
AFTER = {"Add": 2, "Ceil": 1, "Floor": 2, "Relu": 1}


@rule(lambda g, x: g.Ceil(x))
def above_floor(g: RewriteBuilder, x: Value) -> Value:
    """Ceil(x) => Floor(x) + 1"""
    return g.Add(g.Floor(x), g.const(np.float32(1)))
