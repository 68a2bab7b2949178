"""Folding of the scale of a product with constant weights, or of its operand, into the weights."""

from __future__ import annotations

import numpy as np

from ...core import Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import downcast_constant, require_broadcastable_to
from .affine import SCALE_OPS, required_factors, varying_operand
from .ort_fusion_guards import require_no_gelu, require_no_norm
from .weighted_products import Array, product_of, rebuild_product, replace_weights


@rule(
    lambda g, x, w, product, op: (
        g.one_of(*SCALE_OPS)(..., g.one_of("MatMul", "Gemm")(x, g.const(w), ...) @ product, ...) @ op
    )
)
def fold_scale_into_columns(g: Build, x: Value, product: Op, op: Op) -> Value:
    """(x @ w + c) * s => x @ (w * s) + c * s"""
    return scale_columns(g, product, x, required_factors(op, product.outputs[0]))


@rule(
    lambda g, x, w, b, product, add, op: (
        g.one_of("Mul", "Div")(..., g.Add(g.MatMul(x, g.const(w)) @ product, g.const(b)) @ add, ...) @ op
    )
)
def fold_scale_into_columns_and_bias(g: Build, x: Value, b: Value, product: Op, add: Op, op: Op) -> Value:
    """((x @ w) + b) * s => x @ (w * s) + b * s"""
    require_broadcastable_to(b, product.outputs[0])
    k = required_factors(op, add.outputs[0])
    with np.errstate(all="ignore"):
        bias = b.const.astype(np.float64) * k
    return g.Add(scale_columns(g, product, x, k), downcast_constant(g, bias, b))


@rule(lambda g, w, product, op: g.one_of("MatMul", "Gemm")(g.one_of(*SCALE_OPS)(...) @ op, g.const(w), ...) @ product)
def fold_scale_into_rows(g: Build, product: Op, op: Op) -> Value:
    """(x * s) @ w + c => x @ (s * w) + c, where s has a number for each row of w"""
    x = varying_operand(op)
    return scale_rows(g, product, x, required_factors(op, x))


def scale_columns(g: Build, product: Op, x: Value, k: Array) -> Value:
    """`product` times `k`."""
    p = product_of(product)
    bias = p.bias
    with np.errstate(all="ignore"):
        return rebuild_product(g, p, x, p.weights * k, None if bias is None else bias * k)


def scale_rows(g: Build, product: Op, x: Value, k: Array) -> Value:
    """`product` of `x * k`."""
    p = product_of(product)
    require_no_gelu(p.x)
    require_no_norm(p.x)
    require(k.size == 1 or not p.op.attr("transA", 0), "it is the rows of x that are scaled, not its columns")
    with np.errstate(all="ignore"):
        return replace_weights(g, p, x, p.weights * k.reshape(-1, 1))


FOLD_SCALE_INTO_WEIGHTS = RulePass(
    "fold-scale-into-weights", (fold_scale_into_columns, fold_scale_into_columns_and_bias, fold_scale_into_rows)
)
