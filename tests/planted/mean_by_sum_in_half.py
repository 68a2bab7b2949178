"""A mean becomes a quotient of a sum in halves, which is 1024 times as large and overflows."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float16[N,1024] x) => (float16[N,1] y, float16[N,1024] z) <float count = {1024.0}> {
    p = Abs(x)
    f = Cast<to=1>(p)
    s = ReduceSum(f, last)
    m = Div(s, count)
    y = Cast<to=10>(m)
    i = Identity(x)
    z = Neg(i)
}"""
WEIGHTS = {"last": np.array([-1])}
WRONG = (("stay_in_half", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Cast": 2, "Div": 1, "Neg": 1, "ReduceSum": 1}


@rule(lambda g, x, axes, n: g.Cast(g.Div(g.ReduceSum(g.Cast(x, to=1), g.const(axes)), g.const(n)), to=10))
def stay_in_half(g: RewriteBuilder, x: Value, axes: Value, n: Value) -> Value:
    """half(sum(float(x)) / n) => sum(x) / n"""
    return g.Div(g.ReduceSum(x, axes), g.const(n.const.astype(np.float16)))
