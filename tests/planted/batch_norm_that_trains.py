"""A BatchNormalization in training form goes into the Conv before it, with statistics that it does not use."""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, rule

MODEL = """g (float[N,2,4,4] x) => (float[N,3,4,4] y, float[N,3,4,4] z) {
    a = Conv(x, w)
    y, p, q = BatchNormalization<training_mode=1>(a, s, t, m, v)
    n = Neg(x)
    b = Conv(n, w)
    z = BatchNormalization(b, k, k, k, k)
}"""
WEIGHTS = {
    **{name: np.array([1, 2, i], np.float32) for i, name in enumerate("stmvk", 1)},
    "w": np.linspace(-1, 2, 6, dtype=np.float32).reshape(3, 2, 1, 1),
}
WRONG = (("fold_any_batch_norm", "y"),)
WHY = "wrong"
AFTER = {"BatchNormalization": 1, "Conv": 2, "Neg": 1}


@rule(lambda g, x, w, s, t, m, v, bn, conv: g.BatchNormalization(g.Conv(x, w) @ conv, s, t, m, v) @ bn)
def fold_any_batch_norm(
    g: RewriteBuilder, x: Value, w: Value, s: Value, t: Value, m: Value, v: Value, bn: Op, conv: Op
) -> Value:
    """Conv(x, w) * k + c => Conv(x, w * k, c)"""
    k = s.const / np.sqrt(v.const + np.float32(bn.attr("epsilon")))
    return g.Conv(x, g.const(w.const * k.reshape(-1, 1, 1, 1)), g.const(t.const - m.const * k), **conv.attrs)
