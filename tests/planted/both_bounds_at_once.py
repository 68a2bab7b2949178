"""A condition on two inputs is taken as never true."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[4] a, float[4] b) => (float[4] y) <float zero = {0.0}, float two = {2.0}, float one = {1.0}> {
    m = ReduceMax<keepdims = 0>(a)
    n = ReduceMin<keepdims = 0>(b)
    c = Less(m, zero)
    d = Greater(n, two)
    e = And(c, d)
    w = Where(e, one, zero)
    y = Add(w, a)
}"""
WRONG = (("never", "e"),)
WHY = "wrong"
AFTER = {"Add": 1, "And": 1, "Greater": 1, "Less": 1, "ReduceMax": 1, "ReduceMin": 1, "Where": 1}


@rule(lambda g, c, d: g.And(c, d), contract=EXACT)
def never(g: RewriteBuilder, c: Value, d: Value) -> Value:
    """c and d => false"""
    return g.const(np.bool_(False))
