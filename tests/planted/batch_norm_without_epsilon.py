"""BatchNormalization becomes Mul and Add, without the epsilon beside a small variance.

Right where epsilon is 0.
"""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, rule

MODEL = """g (float[N,2,3] x) => (float[N,2,3] y, float[N,2,3] z) {
    y = BatchNormalization(x, s, t, m, v)
    n = Neg(x)
    i = Identity(n)
    z = BatchNormalization<epsilon=0.0>(i, s, t, m, v)
}"""
WEIGHTS = {
    "s": np.array([1, 2], np.float32),
    "t": np.array([3, -1], np.float32),
    "m": np.array([0.5, 1], np.float32),
    "v": np.array([0.01, 1], np.float32),
}
WRONG = (("batch_norm_by_parts", "y"),)
WHY = "wrong"
AFTER = {"Add": 1, "BatchNormalization": 1, "Mul": 1, "Neg": 1}


@rule(lambda g, x, s, t, m, v, bn: g.BatchNormalization(x, s, t, m, v) @ bn)
def batch_norm_by_parts(g: RewriteBuilder, x: Value, s: Value, t: Value, m: Value, v: Value, bn: Op) -> Value:
    """BatchNormalization(x) => x * k + c"""
    k = s.const / np.sqrt(v.const)
    c = t.const - m.const * k
    return g.Add(g.Mul(x, g.const(k.reshape(-1, 1))), g.const(c.reshape(-1, 1)))
