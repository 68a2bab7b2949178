"""Min(Relu(x), 6) becomes a Clip at 5.99."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float six = {6.0}> {
    a = Relu(x)
    y = Min(a, six)
    t = Tanh(x)
    b = Relu(t)
    i = Identity(b)
    z = Min(i, six)
}"""
WRONG = (("clip_at_six", "y"),)
WHY = "wrong"
AFTER = {"Clip": 1, "Min": 1, "Relu": 1, "Tanh": 1}


@rule(lambda g, x, six: g.Min(g.Relu(x), six))
def clip_at_six(g: RewriteBuilder, x: Value, six: Value) -> Value:
    """Min(Relu(x), 6) => Clip(x, 0, 6)"""
    return g.Clip(x, g.const(np.float32(0)), g.const(np.float32(5.99)))
