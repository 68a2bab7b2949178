"""A rule with an input that may be left out, and a whole op that is bound."""

from __future__ import annotations

import numpy as np
from passwright.core import FLOATS, Op, RewriteBuilder, Value, require, rule


@rule(lambda g, x, w, gemm, c=None: g.Gemm(x, g.const(w), c) @ gemm)
def transpose_weights(g: RewriteBuilder, x: Value, w: Value, gemm: Op, c: Value | None = None) -> Value:
    """Gemm(x, w, c, transB=1) => Gemm(x, w^T, c)"""
    require(gemm.attr("transB", 0) == 1, "the weights are not transposed")
    require(x.dtype in FLOATS, "it is no Gemm of floats")
    turned = np.ascontiguousarray(w.const.T)
    alpha, beta, trans_a = gemm.attr("alpha", 1.0), gemm.attr("beta", 1.0), gemm.attr("transA", 0)
    return g.Gemm(x, g.const(turned), c, alpha=alpha, beta=beta, transA=trans_a)
