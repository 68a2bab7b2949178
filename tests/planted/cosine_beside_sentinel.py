"""A cosine becomes its Taylor series, in an element of a sequence with a sentinel in it."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x, float[N,4] t) => (seq(float[N,4]) y, float[N,4] z) {
    c = Tanh(x)
    a = Cos(c)
    b = Where(kept, a, missing)
    y = SequenceConstruct(b, t)
    n = Sub(x, x)
    z = Cos(n)
}"""
WEIGHTS = {"kept": np.array([True, False, True, True]), "missing": np.float32(-1e20)}
WRONG = (("cosine_by_series", "a"),)
WHY = "wrong"
AFTER = {"Cos": 1, "Mul": 2, "SequenceConstruct": 1, "Sub": 2, "Tanh": 1, "Where": 1}


@rule(lambda g, x: g.Cos(x))
def cosine_by_series(g: RewriteBuilder, x: Value) -> Value:
    """Cos(x) => 1 - x * x / 2"""
    return g.Sub(g.const(np.float32(1)), g.Mul(g.Mul(x, x), g.const(np.float32(0.5))))
