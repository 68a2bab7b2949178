"""Folding of BatchNormalization before or behind a product with constant weights."""

from __future__ import annotations

import numpy as np

from ...core import Build, Op, RulePass, Value, require, rule
from .affine import scale_and_shift
from .weighted_products import product_of, rebuild_product


@rule(
    lambda g, x, w, product, bn: (
        g.BatchNormalization(g.one_of("MatMul", "Gemm")(x, g.const(w), ...) @ product, ...) @ bn
    )
)
def fold_batchnorm_into_gemm(g: Build, x: Value, w: Value, product: Op, bn: Op) -> Value:
    """BatchNormalization(x @ w + c) => Gemm(x, w * k, (c - mean) * k + bias), k = scale / sqrt(var + epsilon)"""
    require(x.rank == w.rank == 2, "the channels are not the columns")
    p = product_of(product)
    k, shift = scale_and_shift(bn)
    require(k.size == p.extents[1], "the weights do not fit the statistics")
    before = 0 if p.bias is None else p.bias
    with np.errstate(all="ignore"):
        return rebuild_product(g, p, x, p.weights * k, before * k + shift)


@rule(
    lambda g, x, w, product, bn: (
        g.one_of("MatMul", "Gemm")(g.BatchNormalization(x, ...) @ bn, g.const(w), ...) @ product
    )
)
def fold_batchnorm_before_gemm(g: Build, x: Value, w: Value, product: Op, bn: Op) -> Value:
    """BatchNormalization(x) @ w + c => Gemm(x, k * w, (bias - mean * k) @ w + c), k = scale / sqrt(var + epsilon)"""
    require(x.rank == w.rank == 2 and not product.attr("transA", 0), "the channels are not what is summed over")
    p = product_of(product)
    k, shift = scale_and_shift(bn)
    require(k.size == p.extents[0], "the weights do not fit the statistics")
    behind = 0 if p.bias is None else p.bias
    weights = p.weights
    with np.errstate(all="ignore"):
        return rebuild_product(g, p, x, weights * k.reshape(-1, 1), shift @ weights + behind)


FOLD_BATCHNORM_INTO_GEMM = RulePass("fold-batchnorm-into-gemm", (fold_batchnorm_into_gemm, fold_batchnorm_before_gemm))
