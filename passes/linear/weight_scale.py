"""What scales the operand or the result of a product with constant weights goes into the weights."""

from __future__ import annotations

import numpy as np

from ...core import ROUNDING, Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import downcast_constant, require_broadcastable_to, values_along_axis
from .ort_fusion_guards import require_no_gelu, require_no_norm
from .weighted_products import Array, product_of, rebuild_product, replace_weights

Bias = Value | None


@rule(
    lambda g, x, w, s, product, c=None: g.Mul(g.one_of("MatMul", "Gemm")(x, g.const(w), c) @ product, g.const(s)),
    contract=ROUNDING,
)
def multiply_columns(g: Build, x: Value, w: Value, s: Value, product: Op, c: Bias) -> Value:
    """(x @ w + c) * s => x @ (w * s) + c * s"""
    return scale_columns(g, product, x, scale_factors(s, product.outputs[0]))


@rule(
    lambda g, x, w, s, product, c=None: g.Div(g.one_of("MatMul", "Gemm")(x, g.const(w), c) @ product, g.const(s)),
    contract=ROUNDING,
)
def divide_columns(g: Build, x: Value, w: Value, s: Value, product: Op, c: Bias) -> Value:
    """(x @ w + c) / s => x @ (w / s) + c / s"""
    return scale_columns(g, product, x, reciprocal(scale_factors(s, product.outputs[0])))


@rule(lambda g, x, w, product, c=None: g.Neg(g.one_of("MatMul", "Gemm")(x, g.const(w), c) @ product), contract=ROUNDING)
def negate_columns(g: Build, x: Value, w: Value, product: Op, c: Bias) -> Value:
    """-(x @ w + c) => x @ -w + -c"""
    return scale_columns(g, product, x, np.array([-1.0]))


@rule(
    lambda g, x, w, b, s, product: g.Mul(g.Add(g.MatMul(x, g.const(w)) @ product, g.const(b)), g.const(s)),
    contract=ROUNDING,
)
def multiply_columns_with_bias(g: Build, x: Value, w: Value, b: Value, s: Value, product: Op) -> Value:
    """((x @ w) + b) * s => x @ (w * s) + b * s"""
    return scale_biased_columns(g, product, x, b, scale_factors(s, product.outputs[0]))


@rule(
    lambda g, x, w, b, s, product: g.Div(g.Add(g.MatMul(x, g.const(w)) @ product, g.const(b)), g.const(s)),
    contract=ROUNDING,
)
def divide_columns_with_bias(g: Build, x: Value, w: Value, b: Value, s: Value, product: Op) -> Value:
    """((x @ w) + b) / s => x @ (w / s) + b / s"""
    return scale_biased_columns(g, product, x, b, reciprocal(scale_factors(s, product.outputs[0])))


@rule(
    lambda g, x, w, s, product, c=None: g.one_of("MatMul", "Gemm")(g.Mul(x, g.const(s)), g.const(w), c) @ product,
    contract=ROUNDING,
)
def multiply_rows(g: Build, x: Value, w: Value, s: Value, product: Op, c: Bias) -> Value:
    """(x * s) @ w + c => x @ (s * w) + c, where s has a number for each row of w"""
    return scale_rows(g, product, x, scale_factors(s, x))


@rule(
    lambda g, x, w, s, product, c=None: g.one_of("MatMul", "Gemm")(g.Div(x, g.const(s)), g.const(w), c) @ product,
    contract=ROUNDING,
)
def divide_rows(g: Build, x: Value, w: Value, s: Value, product: Op, c: Bias) -> Value:
    """(x / s) @ w + c => x @ (w / s) + c, where s has a number for each row of w"""
    return scale_rows(g, product, x, reciprocal(scale_factors(s, x)))


@rule(lambda g, x, w, product, c=None: g.one_of("MatMul", "Gemm")(g.Neg(x), g.const(w), c) @ product, contract=ROUNDING)
def negate_rows(g: Build, x: Value, w: Value, product: Op, c: Bias) -> Value:
    """-x @ w + c => x @ -w + c"""
    return scale_rows(g, product, x, np.array([-1.0]))


def scale_factors(s: Value, x: Value) -> Array:
    """The factors that a constant has for the last axis of `x`: one number, or one for each index."""
    if not s.shape:
        return s.const.reshape(1).astype(np.float64)
    require_broadcastable_to(s, x)
    return values_along_axis(s, x.rank, -1)


def reciprocal(k: Array) -> Array:
    """One over each; a zero shows up later, in the weights."""
    with np.errstate(all="ignore"):
        return 1 / k


def scale_columns(g: Build, product: Op, x: Value, k: Array) -> Value:
    """`product` times `k`."""
    p = product_of(product)
    bias = p.bias
    with np.errstate(all="ignore"):
        return rebuild_product(g, p, x, p.weights * k, None if bias is None else bias * k)


def scale_biased_columns(g: Build, product: Op, x: Value, b: Value, k: Array) -> Value:
    """`product` and `b`, added and multiplied by `k`."""
    require_broadcastable_to(b, product.outputs[0])
    with np.errstate(all="ignore"):
        bias = b.const.astype(np.float64) * k
    return g.Add(scale_columns(g, product, x, k), downcast_constant(g, bias, b))


def scale_rows(g: Build, product: Op, x: Value, k: Array) -> Value:
    """`product` of `x * k`."""
    p = product_of(product)
    require_no_gelu(p.x)
    require_no_norm(p.x)
    require(k.size == 1 or not p.op.attr("transA", 0), "it is the rows of x that are scaled, not its columns")
    with np.errstate(all="ignore"):
        return replace_weights(g, p, x, p.weights * k.reshape(-1, 1))


FOLD_SCALE_INTO_WEIGHTS = RulePass(
    "fold-scale-into-weights",
    (
        multiply_columns,
        divide_columns,
        negate_columns,
        multiply_columns_with_bias,
        divide_columns_with_bias,
        multiply_rows,
        divide_rows,
        negate_rows,
    ),
)
