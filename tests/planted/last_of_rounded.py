"""ArgMax takes the last of equal elements, and its input is rounded."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,12] x) => (int64[N,1] y, int64[N,1] z) {
    r = Round(x)
    y = ArgMax<axis=1>(r)
    n = Mul(r, nothing)
    s = Where(never, n, order)
    i = Identity(s)
    z = ArgMax<axis=1>(i)
}"""
WEIGHTS = {
    "order": np.arange(12, dtype=np.float32)[None],
    "nothing": np.float32(0),
    "never": np.zeros((1, 12), np.bool_),
}
WRONG = (("last_of_equals", "y"),)
WHY = "wrong"
AFTER = {"ArgMax": 2, "Mul": 1, "Round": 1, "Where": 1}


@rule(lambda g, x, arg: g.ArgMax(x) @ arg, contract=EXACT)
def last_of_equals(g: RewriteBuilder, x: Value, arg: Op) -> Value:
    """ArgMax(x) => the last of equal elements"""
    require(not arg.attr("select_last_index", 0), "already the last")
    return g.ArgMax(x, **{**arg.attrs, "select_last_index": 1})
