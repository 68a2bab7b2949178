"""Gemm as MatMul and Add.

`split-gemm`: Gemm as MatMul and Add, for runtimes that have no Gemm, or quantize MatMul only.
"""

from __future__ import annotations

import numpy as np

from ...core import Op, RewriteBuilder, Value, require, rule
from ..linear.weighted_products import GEMM_TYPES, alpha_or_beta
from ..support.operand_queries import downcast_constant


@rule(lambda g, a, b, op, c=None: g.Gemm(a, b, c) @ op, group="split-gemm")
def split_gemm_op(g: RewriteBuilder, a: Value, b: Value, op: Op, c: Value | None = None) -> Value:
    """Gemm(a, b, c, alpha, beta) => alpha * MatMul(a, b) + beta * c, with a Transpose of a or b where it has one"""
    require(op.version >= 7, "before opset 7 Gemm and Add do not broadcast by rule")
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    product = g.MatMul(_operand(g, a, turned=op.attr("transA", 0)), _operand(g, b, turned=op.attr("transB", 0)))
    product, beta = _scaled(g, product, alpha_or_beta(op, "alpha")), alpha_or_beta(op, "beta")
    return product if c is None or beta == 0 else g.Add(product, _scaled(g, c, beta))


def _operand(g: RewriteBuilder, v: Value, *, turned: int) -> Value:
    if not turned:
        return v
    return g.const(v.const.T) if v.is_const else g.Transpose(v, perm=[1, 0])


def _scaled(g: RewriteBuilder, v: Value, factor: float) -> Value:
    if factor == 1:
        return v
    if v.is_const:
        return downcast_constant(g, v.const.astype(np.float64) * factor, v)
    return g.Mul(v, factor)
