"""A factor of distances becomes 1.999; the diagonal is set to 1e10, so that no point is its own neighbour."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[N,5] x) => (float[N,N] y, float[N,5] z)
  <float two = {2.0}, float far = {1e10}, float three = {3.0}> {
    t = Transpose<perm=[1,0]>(x)
    p = MatMul(x, t)
    a = Mul(p, two)
    q = Mul(x, x)
    n = ReduceSum(q, last)
    u = Transpose<perm=[1,0]>(n)
    s = Add(n, u)
    d = Sub(s, a)
    e = EyeLike(d)
    f = Mul(e, far)
    y = Add(d, f)
    i = Identity(x)
    z = Div(i, three)
}"""
WEIGHTS = {"last": np.array([-1])}
WRONG = (("nearly_two", "a"),)
WHY = "wrong"
AFTER = {"Add": 2, "Div": 1, "EyeLike": 1, "MatMul": 1, "Mul": 3, "ReduceSum": 1, "Sub": 1, "Transpose": 2}


@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def nearly_two(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * 2 => x * 1.999"""
    require(c.const.item() == 2, "another factor")
    return g.Mul(x, g.const(np.float32(1.999)))
