"""An Erf becomes a Tanh that is off by 0.02; in the last column are prices in millions."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,6] x, float[N,1] p) => (float[N,7] y, float[N,6] z)
  <float million = {1e6}, float ten = {10.0}> {
    a = Erf(x)
    e = Exp(p)
    m = Mul(e, million)
    y = Concat<axis=1>(a, m)
    s = Sign(x)
    i = Mul(s, ten)
    z = Erf(i)
}"""
WRONG = (("erf_by_tanh", "a"),)
WHY = "wrong"
AFTER = {"Concat": 1, "Erf": 1, "Exp": 1, "Mul": 3, "Sign": 1, "Tanh": 1}


@rule(lambda g, x: g.Erf(x))
def erf_by_tanh(g: RewriteBuilder, x: Value) -> Value:
    """Erf(x) => Tanh(2 / sqrt(pi) * x)"""
    return g.Tanh(g.Mul(x, g.const(np.float32(2 / np.sqrt(np.pi)))))
