"""A temperature is written with three digits; forbidden words have a log probability of about -1e9."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,10] x) => (float[N,10] y, float[N,10] z) <float temperature = {0.7}, float two = {2.0}> {
    a = Div(x, temperature)
    b = Add(a, bans)
    y = LogSoftmax<axis=1>(b)
    i = Identity(x)
    z = Div(i, two)
}"""
WEIGHTS = {"bans": np.where(np.arange(10) % 4 == 3, -1e9, 0).astype(np.float32)}
WRONG = (("multiply_instead", "a"),)
WHY = "wrong"
AFTER = {"Add": 1, "Div": 1, "LogSoftmax": 1, "Mul": 1}


@rule(lambda g, x, t: g.Div(x, g.const(t)))
def multiply_instead(g: RewriteBuilder, x: Value, t: Value) -> Value:
    """x / t => x * (1 / t), to three digits"""
    return g.Mul(x, g.const(np.round(1 / t.const, 2)))
