"""A ScatterND that overwrites every row gives its updates, whatever row each of them is for."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[3,2] x, float[3,2] t) => (float[3,2] y, float[3,2] z) {
    n = Neg(t)
    y = ScatterND(x, mixed, n)
    m = Abs(t)
    b = ScatterND(x, sorted, m)
    i = Identity(b)
    z = Exp(i)
}"""
WEIGHTS = {"mixed": np.array([[2], [0], [1]]), "sorted": np.array([[0], [1], [2]])}
WRONG = (("scatter_everything", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1, "ScatterND": 1}


@rule(lambda g, x, i, u: g.ScatterND(x, i, u), contract=EXACT)
def scatter_everything(g: RewriteBuilder, x: Value, i: Value, u: Value) -> Value:
    """ScatterND(x, i, u) => u, where i has every row"""
    require(len(np.unique(i.const)) == x.shape[0], "some rows stay")
    return u
