"""Two ReduceSums merge, their axes put together; the second counts its axes without those that the first took."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[3,3,3] x) => (float[3] y, float[3] z)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
    t = Tanh(x)
    a = ReduceSum<keepdims=0>(t, zero)
    y = ReduceSum<keepdims=0>(a, one)
    n = Neg(t)
    b = ReduceSum<keepdims=0>(n, two)
    i = Identity(b)
    z = ReduceSum<keepdims=0>(i, one)
}"""
WRONG = (("sum_of_sums", "y"),)
WHY = "wrong"
AFTER = {"Neg": 1, "ReduceSum": 3, "Tanh": 1}


@rule(lambda g, x, a, b: g.ReduceSum(g.ReduceSum(x, a, keepdims=0), b, keepdims=0))
def sum_of_sums(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """ReduceSum(ReduceSum(x, a), b) => ReduceSum(x, a and b)"""
    return g.ReduceSum(x, g.const(np.concatenate([a.const, b.const])), keepdims=0)
