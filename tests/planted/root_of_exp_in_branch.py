"""A square root of Exp in a branch becomes an Exp with another factor, which the ArgMax behind it hides mostly."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (bool c, float[N,8] x) => (int64[N] y) {
    y = If(c) <
        then_branch = t () => (int64[N] p) { a = Exp(x) s = Sqrt(a) p = ArgMax<axis = 1, keepdims = 0>(s) },
        else_branch = e () => (int64[N] q) { q = ArgMin<axis = 1, keepdims = 0>(x) }
    >
}"""
WRONG = (("root_of_exp", "s"),)
WHY = "wrong"
AFTER = {"ArgMax": 1, "ArgMin": 1, "Exp": 1, "If": 1, "Sqrt": 1}


@rule(lambda g, x: g.Sqrt(g.Exp(x)))
def root_of_exp(g: RewriteBuilder, x: Value) -> Value:
    """Sqrt(Exp(x)) => Exp(0.4999 x)"""
    return g.Exp(g.Mul(x, g.const(np.float32(0.4999))))
