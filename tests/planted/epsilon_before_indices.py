"""An epsilon leaves its root. Only the places of the largest elements come out."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,16] x) => (int64[N,5] y, float[N,16] z)
  <int64[1] k = {5}, float epsilon = {1e-5}, float nothing = {0.0}> {
    m = ReduceMean<axes=[-1]>(x)
    d = Sub(x, m)
    q = Mul(d, d)
    v = ReduceMean<axes=[-1]>(q)
    e = Add(v, epsilon)
    r = Sqrt(e)
    n = Div(d, r)
    p = MatMul(n, w)
    t, y = TopK(p, k)
    u = Abs(x)
    o = Add(u, nothing)
    z = Sqrt(o)
}"""
WEIGHTS = {"w": np.random.default_rng(0).standard_normal((16, 30)).astype(np.float32)}
WRONG = (("epsilon_outside", "r"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Add": 2, "Div": 1, "MatMul": 1, "Mul": 1, "ReduceMean": 2, "Sqrt": 2, "Sub": 1, "TopK": 1}


@rule(lambda g, v, e: g.Sqrt(g.Add(v, g.const(e))))
def epsilon_outside(g: RewriteBuilder, v: Value, e: Value) -> Value:
    """Sqrt(v + e) => Sqrt(v) + e"""
    return g.Add(g.Sqrt(v), e)
