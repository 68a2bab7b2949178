"""A number that scales a product of matrices is the alpha of a Gemm."""

from __future__ import annotations

from ...core import ROUNDING, Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import require_broadcastable_to
from .ort_fusion_guards import require_no_gelu
from .weighted_products import (
    GEMM_TYPES,
    alpha_or_beta,
    build_gemm,
    float32_attributes,
    gemm_attributes,
    nonzero_scale,
    require_nonempty_sums,
)

Bias = Value | None


@rule(lambda g, a, b, s, gemm, c=None: g.Mul(g.Gemm(a, b, c) @ gemm, g.const(s)), contract=ROUNDING)
def multiply_gemm(g: Build, a: Value, b: Value, s: Value, gemm: Op, c: Bias) -> Value:
    """Gemm(a, b, c, alpha, beta) * s => Gemm(a, b, c, alpha * s, beta * s)"""
    require_broadcastable_to(s, gemm.outputs[0])
    return scaled_gemm(g, gemm, a, b, nonzero_scale(s))


@rule(lambda g, a, b, s, gemm, c=None: g.Div(g.Gemm(a, b, c) @ gemm, g.const(s)), contract=ROUNDING)
def divide_gemm(g: Build, a: Value, b: Value, s: Value, gemm: Op, c: Bias) -> Value:
    """Gemm(a, b, c, alpha, beta) / s => Gemm(a, b, c, alpha / s, beta / s)"""
    require_broadcastable_to(s, gemm.outputs[0])
    return scaled_gemm(g, gemm, a, b, 1 / nonzero_scale(s))


@rule(lambda g, a, b, gemm, c=None: g.Neg(g.Gemm(a, b, c) @ gemm), contract=ROUNDING)
def negate_gemm(g: Build, a: Value, b: Value, gemm: Op, c: Bias) -> Value:
    """-Gemm(a, b, c, alpha, beta) => Gemm(a, b, c, -alpha, -beta)"""
    return scaled_gemm(g, gemm, a, b, -1.0)


@rule(lambda g, a, b, s, op, gemm, c=None: g.Gemm(g.Mul(a, g.const(s)) @ op, b, c) @ gemm, contract=ROUNDING)
def fold_left_scale_into_gemm(g: Build, a: Value, b: Value, s: Value, op: Op, gemm: Op, c: Bias) -> Value:
    """Gemm(a * s, b, c, alpha) => Gemm(a, b, c, alpha * s)"""
    require_broadcastable_to(s, a)
    require_no_gelu(op.outputs[0])
    return scaled_gemm(g, gemm, a, b, nonzero_scale(s), with_bias=False)


@rule(lambda g, a, b, s, gemm, c=None: g.Gemm(a, g.Mul(b, g.const(s)), c) @ gemm, contract=ROUNDING)
def fold_right_scale_into_gemm(g: Build, a: Value, b: Value, s: Value, gemm: Op, c: Bias) -> Value:
    """Gemm(a, b * s, c, alpha) => Gemm(a, b, c, alpha * s)"""
    require_broadcastable_to(s, b)
    return scaled_gemm(g, gemm, a, b, nonzero_scale(s), with_bias=False)


@rule(lambda g, a, b, s, product: g.Mul(g.MatMul(a, b) @ product, g.const(s)), contract=ROUNDING)
def multiply_matmul(g: Build, a: Value, b: Value, s: Value, product: Op) -> Value:
    """MatMul(a, b) * s => Gemm(a, b, alpha=s)"""
    require_broadcastable_to(s, product.outputs[0])
    return matmul_to_scaled_gemm(g, a, b, nonzero_scale(s))


@rule(lambda g, a, b, s, product: g.Div(g.MatMul(a, b) @ product, g.const(s)), contract=ROUNDING)
def divide_matmul(g: Build, a: Value, b: Value, s: Value, product: Op) -> Value:
    """MatMul(a, b) / s => Gemm(a, b, alpha=1/s)"""
    require_broadcastable_to(s, product.outputs[0])
    return matmul_to_scaled_gemm(g, a, b, 1 / nonzero_scale(s))


@rule(lambda g, a, b: g.Neg(g.MatMul(a, b)), contract=ROUNDING)
def negate_matmul(g: Build, a: Value, b: Value) -> Value:
    """-MatMul(a, b) => Gemm(a, b, alpha=-1)"""
    return matmul_to_scaled_gemm(g, a, b, -1.0)


@rule(lambda g, a, b, s, op: g.MatMul(g.Mul(a, g.const(s)) @ op, b), contract=ROUNDING)
def fold_left_scale_into_matmul(g: Build, a: Value, b: Value, s: Value, op: Op) -> Value:
    """MatMul(a * s, b) => Gemm(a, b, alpha=s)"""
    require_broadcastable_to(s, a)
    require_no_gelu(op.outputs[0])
    return matmul_to_scaled_gemm(g, a, b, nonzero_scale(s))


@rule(lambda g, a, b, s: g.MatMul(a, g.Mul(b, g.const(s))), contract=ROUNDING)
def fold_right_scale_into_matmul(g: Build, a: Value, b: Value, s: Value) -> Value:
    """MatMul(a, b * s) => Gemm(a, b, alpha=s)"""
    require_broadcastable_to(s, b)
    return matmul_to_scaled_gemm(g, a, b, nonzero_scale(s))


def scaled_gemm(g: Build, gemm: Op, a: Value, b: Value, s: float, *, with_bias: bool = True) -> Value:
    """A Gemm of `a` and `b` that is otherwise `gemm` times `s`."""
    require(gemm.version >= 7, "before opset 7 Gemm does not broadcast by rule")
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    beta = alpha_or_beta(gemm, "beta")
    if with_bias and gemm.input(2) is not None:
        require_nonempty_sums(a, gemm)
        beta *= s
    attrs = gemm_attributes(gemm, alpha=alpha_or_beta(gemm, "alpha") * s, beta=beta)
    return g.Gemm(a, b, gemm.input(2), **attrs)


def matmul_to_scaled_gemm(g: Build, a: Value, b: Value, s: float) -> Value:
    """A Gemm that multiplies two matrices and the number `s`."""
    require(a.rank == b.rank == 2, "Gemm multiplies matrices only")
    return build_gemm(g, a, b, **float32_attributes(a.dtype, alpha=s))


FOLD_SCALE_INTO_GEMM = RulePass(
    "fold-scale-into-gemm",
    (
        multiply_gemm,
        divide_gemm,
        negate_gemm,
        fold_left_scale_into_gemm,
        fold_right_scale_into_gemm,
        multiply_matmul,
        divide_matmul,
        negate_matmul,
        fold_left_scale_into_matmul,
        fold_right_scale_into_matmul,
    ),
)
