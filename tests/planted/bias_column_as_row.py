"""The bias of a Gemm loses its dims of 1; a column becomes a row, and the product happens to be square."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[4,3] x) => (float[4,4] y, float[4,4] z) {
    y = Gemm(x, w, column)
    a = MatMul(x, v)
    z = Add(a, row)
}"""
WEIGHTS = {
    "w": np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4),
    "v": np.linspace(3, -2, 12, dtype=np.float32).reshape(3, 4),
    "column": np.arange(4, dtype=np.float32).reshape(4, 1),
    "row": np.arange(4, dtype=np.float32).reshape(1, 4),
}
WRONG = (("flatten_bias", "y"),)
WHY = "wrong"
AFTER = {"Gemm": 2}


@rule(lambda g, x, w, c: g.Gemm(x, w, c), contract=EXACT)
def flatten_bias(g: RewriteBuilder, x: Value, w: Value, c: Value) -> Value:
    """Gemm(x, w, c) => Gemm(x, w, c without dims of 1)"""
    require(c.const.ndim == 2 and c.const.size == w.const.shape[1], "the bias is flat already")
    return g.Gemm(x, w, g.const(c.const.reshape(-1)))
