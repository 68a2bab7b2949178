"""A number that scales a product of matrices is the alpha of a Gemm."""

from __future__ import annotations

from ...core import ROUNDING, Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import require_same_shape
from .ort_fusion_guards import require_no_gelu
from .weighted_products import (
    GEMM_TYPES,
    factor,
    gemm_attributes,
    gemm_of_product,
    require_beta_counts,
    scale_in,
    single_precision,
)

Bias = Value | None


@rule(lambda g, a, b, s, gemm, c=None: g.Mul(g.Gemm(a, b, c) @ gemm, g.const(s)), contract=ROUNDING)
def multiply_gemm(g: Build, a: Value, b: Value, s: Value, gemm: Op, c: Bias) -> Value:
    """Gemm(a, b, c, alpha, beta) * s => Gemm(a, b, c, alpha * s, beta * s)"""
    require_same_shape(s, gemm.outputs[0])
    return scaled_gemm(g, gemm, a, b, scale_in(s))


@rule(lambda g, a, b, s, gemm, c=None: g.Div(g.Gemm(a, b, c) @ gemm, g.const(s)), contract=ROUNDING)
def divide_gemm(g: Build, a: Value, b: Value, s: Value, gemm: Op, c: Bias) -> Value:
    """Gemm(a, b, c, alpha, beta) / s => Gemm(a, b, c, alpha / s, beta / s)"""
    require_same_shape(s, gemm.outputs[0])
    return scaled_gemm(g, gemm, a, b, 1 / scale_in(s))


@rule(lambda g, a, b, gemm, c=None: g.Neg(g.Gemm(a, b, c) @ gemm), contract=ROUNDING)
def negate_gemm(g: Build, a: Value, b: Value, gemm: Op, c: Bias) -> Value:
    """-Gemm(a, b, c, alpha, beta) => Gemm(a, b, c, -alpha, -beta)"""
    return scaled_gemm(g, gemm, a, b, -1.0)


@rule(lambda g, a, b, s, op, gemm, c=None: g.Gemm(g.Mul(a, g.const(s)) @ op, b, c) @ gemm, contract=ROUNDING)
def take_left_scale_into_gemm(g: Build, a: Value, b: Value, s: Value, op: Op, gemm: Op, c: Bias) -> Value:
    """Gemm(a * s, b, c, alpha) => Gemm(a, b, c, alpha * s)"""
    require_same_shape(s, a)
    require_no_gelu(op.outputs[0])
    return scaled_gemm(g, gemm, a, b, scale_in(s), with_bias=False)


@rule(lambda g, a, b, s, gemm, c=None: g.Gemm(a, g.Mul(b, g.const(s)), c) @ gemm, contract=ROUNDING)
def take_right_scale_into_gemm(g: Build, a: Value, b: Value, s: Value, gemm: Op, c: Bias) -> Value:
    """Gemm(a, b * s, c, alpha) => Gemm(a, b, c, alpha * s)"""
    require_same_shape(s, b)
    return scaled_gemm(g, gemm, a, b, scale_in(s), with_bias=False)


@rule(lambda g, a, b, s, product: g.Mul(g.MatMul(a, b) @ product, g.const(s)), contract=ROUNDING)
def multiply_matmul(g: Build, a: Value, b: Value, s: Value, product: Op) -> Value:
    """MatMul(a, b) * s => Gemm(a, b, alpha=s)"""
    require_same_shape(s, product.outputs[0])
    return scaled_matmul(g, a, b, scale_in(s))


@rule(lambda g, a, b, s, product: g.Div(g.MatMul(a, b) @ product, g.const(s)), contract=ROUNDING)
def divide_matmul(g: Build, a: Value, b: Value, s: Value, product: Op) -> Value:
    """MatMul(a, b) / s => Gemm(a, b, alpha=1/s)"""
    require_same_shape(s, product.outputs[0])
    return scaled_matmul(g, a, b, 1 / scale_in(s))


@rule(lambda g, a, b: g.Neg(g.MatMul(a, b)), contract=ROUNDING)
def negate_matmul(g: Build, a: Value, b: Value) -> Value:
    """-MatMul(a, b) => Gemm(a, b, alpha=-1)"""
    return scaled_matmul(g, a, b, -1.0)


@rule(lambda g, a, b, s, op: g.MatMul(g.Mul(a, g.const(s)) @ op, b), contract=ROUNDING)
def take_left_scale_into_matmul(g: Build, a: Value, b: Value, s: Value, op: Op) -> Value:
    """MatMul(a * s, b) => Gemm(a, b, alpha=s)"""
    require_same_shape(s, a)
    require_no_gelu(op.outputs[0])
    return scaled_matmul(g, a, b, scale_in(s))


@rule(lambda g, a, b, s: g.MatMul(a, g.Mul(b, g.const(s))), contract=ROUNDING)
def take_right_scale_into_matmul(g: Build, a: Value, b: Value, s: Value) -> Value:
    """MatMul(a, b * s) => Gemm(a, b, alpha=s)"""
    require_same_shape(s, b)
    return scaled_matmul(g, a, b, scale_in(s))


def scaled_gemm(g: Build, gemm: Op, a: Value, b: Value, s: float, *, with_bias: bool = True) -> Value:
    """A Gemm of `a` and `b` that is otherwise `gemm` times `s`."""
    require(gemm.version >= 7, "before opset 7 Gemm does not broadcast by rule")
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    beta = factor(gemm, "beta")
    if with_bias and gemm.input(2) is not None:
        require_beta_counts(a, gemm)
        beta *= s
    attrs = gemm_attributes(gemm, alpha=factor(gemm, "alpha") * s, beta=beta)
    return g.Gemm(a, b, gemm.input(2), **attrs)


def scaled_matmul(g: Build, a: Value, b: Value, s: float) -> Value:
    """A Gemm that multiplies two matrices and the number `s`."""
    require(a.rank == b.rank == 2, "Gemm multiplies matrices only")
    return gemm_of_product(g, a, b, **single_precision(a.dtype, alpha=s))


SCALE_GEMM = RulePass(
    "scale-gemm",
    (
        multiply_gemm,
        divide_gemm,
        negate_gemm,
        take_left_scale_into_gemm,
        take_right_scale_into_gemm,
        multiply_matmul,
        divide_matmul,
        negate_matmul,
        take_left_scale_into_matmul,
        take_right_scale_into_matmul,
    ),
)
