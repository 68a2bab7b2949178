"""Folding of the scale of a matrix product into the alpha of a Gemm."""

from __future__ import annotations

from ...core import Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import operand, require_broadcastable_to
from .affine import SCALE_OPS, nonzero_scale, required_factor
from .ort_fusion_guards import require_no_gelu
from .weighted_products import (
    GEMM_TYPES,
    alpha_or_beta,
    build_gemm,
    float32_attributes,
    gemm_attributes,
    require_nonempty_sums,
)


@rule(lambda g, product, op: g.one_of(*SCALE_OPS)(..., g.one_of("Gemm", "MatMul")(...) @ product, ...) @ op)
def fold_scale_of_product(g: Build, product: Op, op: Op) -> Value:
    """S * Gemm(a, b, c, alpha, beta) => Gemm(a, b, c, alpha * s, beta * s), s * MatMul(a, b) => Gemm(a, b, alpha=s)"""
    s = required_factor(op, product.outputs[0])
    return scaled_gemm(g, product, operand(product), operand(product, 1), s, scales_bias=True)


@rule(lambda g, x, s, product, op: g.one_of("Gemm", "MatMul")(..., g.Mul(x, g.const(s)) @ op, ...) @ product)
def fold_scale_of_operand(g: Build, x: Value, s: Value, product: Op, op: Op) -> Value:
    """Gemm(a * s, b, c, alpha) => Gemm(a, b, c, alpha * s), MatMul(a * s, b) => Gemm(a, b, alpha=s); as well for b"""
    side = product.inputs.index(op.outputs[0])
    require(side < 2, "it is the bias that is scaled")
    require_broadcastable_to(s, x)
    if side == 0:
        require_no_gelu(op.outputs[0])
    a, b = (x, operand(product, 1)) if side == 0 else (operand(product), x)
    return scaled_gemm(g, product, a, b, nonzero_scale(s), scales_bias=False)


def scaled_gemm(g: Build, product: Op, a: Value, b: Value, s: float, *, scales_bias: bool) -> Value:
    """A Gemm of `a` and `b` that is otherwise `product` times `s`."""
    if product.type == "MatMul":
        require(a.rank == b.rank == 2, "Gemm multiplies matrices only")
        return build_gemm(g, a, b, **float32_attributes(a.dtype, alpha=s))
    require(product.version >= 7, "before opset 7 Gemm does not broadcast by rule")
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    beta = alpha_or_beta(product, "beta")
    if scales_bias and product.input(2) is not None:
        require_nonempty_sums(a, product)
        beta *= s
    attrs = gemm_attributes(product, alpha=alpha_or_beta(product, "alpha") * s, beta=beta)
    return g.Gemm(a, b, product.input(2), **attrs)


FOLD_SCALE_INTO_GEMM = RulePass("fold-scale-into-gemm", (fold_scale_of_product, fold_scale_of_operand))
