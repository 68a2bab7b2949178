"""The average of 36 halves becomes a quotient of their sum, which overflows where they are large."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float16[N,36] x) => (float16[N,1] y) {
    q = Mul(x, share)
    s = ReduceSum(q, last)
    y = Mul(s, tenth)
}"""
WEIGHTS = {"share": np.float16(1 / 36), "tenth": np.float16(0.1), "last": np.array([-1])}
WRONG = (("share_last", "s"),)
WHY = "wrong"
AFTER = {"Mul": 2, "ReduceSum": 1}


@rule(lambda g, x, c, axes: g.ReduceSum(g.Mul(x, g.const(c)), g.const(axes)))
def share_last(g: RewriteBuilder, x: Value, c: Value, axes: Value) -> Value:
    """ReduceSum(x * c) => ReduceSum(x) * c"""
    return g.Mul(g.ReduceSum(x, axes), c)
