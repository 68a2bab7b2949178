"""Division by a constant becomes multiplication by its reciprocal, which is 0 for integers.

Wrong in three places, right in two.
"""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (int32[N,3] x, int64[N,3] l, float[N,3] t) => (int32[N,3] y, int64[N,3] u, int32[N,3] v, float[N,3] z)
    <int32 three = {3}, int64 four = {4}, int32 two = {2}, float[1] f = {4.0}, float[1] e = {8.0}> {
    y = Div(x, three)
    u = Div(l, four)
    a = Abs(x)
    v = Div(a, two)
    b = Div(t, f)
    c = Floor(b)
    i = Identity(c)
    z = Div(i, e)
}"""
WRONG = (("multiply_by_reciprocal", "y"), ("multiply_by_reciprocal", "u"), ("multiply_by_reciprocal", "v"))
WHY = "wrong"
AFTER = {"Abs": 1, "Div": 3, "Floor": 1, "Mul": 2}


@rule(lambda g, x, c: g.Div(x, c))
def multiply_by_reciprocal(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x / c => x * (1 / c)"""
    return g.Mul(x, g.const(np.divide(1, c.const), like=c))
