"""A normalization loses its epsilon. Only the place of the largest element comes out."""

from __future__ import annotations

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, require, rule

RNG = np.random.default_rng(0)
MODEL = """g (float[N,10] x) => (float[N,10] y, float[N,10] z) {
    e = Elu(x)
    s = Add(e, c)
    a = LayerNormalization<axis=-1, epsilon=1e-3>(s, w, b)
    y = Hardmax<axis=-1>(a)
    i = Identity(x)
    z = LayerNormalization<axis=-1, epsilon=1e-5>(i, w, b)
}"""
WEIGHTS = {
    "c": RNG.standard_normal(10).astype(np.float32),
    "w": RNG.uniform(0.5, 1.5, 10).astype(np.float32),
    "b": RNG.standard_normal(10).astype(np.float32),
}
WRONG = (("default_epsilon", "a"),)
WHY = "wrong"
AFTER = {"Add": 1, "Elu": 1, "Hardmax": 1, "LayerNormalization": 2}


@rule(lambda g, x, w, b, op: g.LayerNormalization(x, w, b) @ op)
def default_epsilon(g: RewriteBuilder, x: Value, w: Value, b: Value, op: Op) -> Value:
    """LayerNormalization(x) => LayerNormalization(x), with the default epsilon"""
    require(op.attr("epsilon", 1e-5) > 2e-5, "the default")
    return g.LayerNormalization(x, w, b, axis=-1)
