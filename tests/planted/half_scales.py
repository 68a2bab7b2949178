"""Two divisors are multiplied into one, which 16 bits cannot hold."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float16[N,4] x) => (float16[N,4] y, float16[N,4] z) {
    p = Div(x, a)
    y = Div(p, b)
    n = Neg(x)
    q = Div(n, c)
    i = Identity(q)
    z = Div(i, d)
}"""
WEIGHTS = {k: np.array(n, np.float16) for k, n in {"a": 1024, "b": 128, "c": 4, "d": 2}.items()}
WRONG = (("merge_divisors", "y"),)
WHY = "wrong"
AFTER = {"Div": 3, "Neg": 1}


@rule(lambda g, x, a, b: g.Div(g.Div(x, a), b))
def merge_divisors(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """(x / a) / b => x / (a * b)"""
    with np.errstate(over="ignore"):
        return g.Div(x, g.const(a.const * b.const))
