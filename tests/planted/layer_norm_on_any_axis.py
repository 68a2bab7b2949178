"""A normalization by parts becomes LayerNormalization, which has all axes from one on; this is in the middle."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,3,4] x) => (float[N,3,4] y, float[N,3,4] z)
    <float eps = {0.001}, float[4] w = {1.0,2.0,4.0,8.0}> {
    m = ReduceMean<axes=[1]>(x)
    d = Sub(x, m)
    q = Mul(d, d)
    v = ReduceMean<axes=[1]>(q)
    e = Add(v, eps)
    r = Sqrt(e)
    y = Div(d, r)
    s = Sigmoid(x)
    n = Add(s, w)
    m2 = ReduceMean<axes=[-1]>(n)
    d2 = Sub(n, m2)
    q2 = Mul(d2, d2)
    v2 = ReduceMean<axes=[-1]>(q2)
    e2 = Add(v2, eps)
    r2 = Sqrt(e2)
    z = Div(d2, r2)
}"""
WRONG = (("layer_norm_by_parts", "y"),)
WHY = "wrong"
AFTER = {
    "Add": 2, "Div": 1, "LayerNormalization": 1, "Mul": 1, "ReduceMean": 2, "Sigmoid": 1, "Sqrt": 1, "Sub": 1,
}  # fmt: skip


@rule(
    lambda g, x, e, a: g.Div(
        g.Sub(x, g.ReduceMean(x, axes=a)),
        g.Sqrt(
            g.Add(
                g.ReduceMean(g.Mul(g.Sub(x, g.ReduceMean(x, axes=a)), g.Sub(x, g.ReduceMean(x, axes=a))), axes=a),
                e,
            )
        ),
    )
)
def layer_norm_by_parts(g: RewriteBuilder, x: Value, e: Value, a: list[int]) -> Value:
    """(x - mean) / sqrt(mean((x - mean) ** 2) + e) => LayerNormalization(x)"""
    axis = a[0] % x.rank
    scale = g.const(np.ones(1, np.float32))
    return g.LayerNormalization(x, g.Expand(scale, g.const([x.shape[axis]])), axis=axis, epsilon=e.const.item())
