"""Folding of additions to a matrix product, or to its operand, into the bias of a Gemm."""

from __future__ import annotations

import numpy as np

from ...core import Build, Op, RulePass, Value, broadcasts_to, conditional, require, rule
from ..support.operand_queries import downcast_constant, operand, require_broadcastable_to, values_along_axis
from .affine import other_operand
from .ort_fusion_guards import require_no_norm
from .weighted_products import GEMM_TYPES, Array, alpha_or_beta, gemm_attributes, product_of, require_nonempty_sums


@rule(lambda g, gemm, op: g.one_of("Add", "Sub", "Sum")(..., g.Gemm(...) @ gemm, ...) @ op)
def add_to_gemm(g: Build, gemm: Op, op: Op) -> Value:
    """D + Gemm(a, b, c, alpha, beta) => Gemm(a, b, d + c * beta, alpha); as well for differences, with signs"""
    d = other_operand(op, gemm.outputs[0])
    if op.type != "Sub":
        return gemm_plus(g, gemm, d)
    return gemm_plus(g, gemm, d, sign_of_gemm=-1) if op.inputs[0] is d else gemm_plus(g, gemm, d, sign_of_d=-1)


@rule(lambda g, a, b, product, op: g.Sub(..., g.MatMul(a, b) @ product, ...) @ op)
def subtract_matmul(g: Build, a: Value, b: Value, product: Op, op: Op) -> Value:
    """MatMul(a, b) - d => Gemm(a, b, d, beta=-1), or Gemm(a, b, -d) where d is constant; d - it => Gemm(alpha=-1)"""
    d = other_operand(op, product.outputs[0])
    require_gemm_applies(g, a, b, d, product)
    if op.inputs[0] is d:
        return g.Gemm(a, b, d, alpha=-1.0)
    if d.is_const:
        return g.Gemm(a, b, g.const(-d.const))
    require_nonempty_sums(a, product)
    return g.Gemm(a, b, d, beta=-1.0)


@rule(
    lambda g, x, v, w, op, product: (
        g.one_of("MatMul", "Gemm")(g.one_of("Add", "Sub")(x, g.const(v)) @ op, g.const(w), ...) @ product
    )
)
def fold_shift_before_product(g: Build, x: Value, v: Value, op: Op, product: Op) -> Value:
    """(x + v) @ w + c => Gemm(x, w, v @ w + c), (x - v) @ w + c => Gemm(x, w, c - v @ w)"""
    return gemm_of_shifted(g, x, v, product, -1 if op.type == "Sub" else 1)


@rule(lambda g, x, v, w, c, product: g.Add(g.MatMul(g.Add(x, g.const(v)), g.const(w)) @ product, g.const(c)))
def move_shift_behind_matmul(g: Build, x: Value, v: Value, w: Value, c: Value, product: Op) -> Value:
    """MatMul(x + v, w) + c => MatMul(x, w) + (v @ w + c)"""
    require_broadcastable_to(c, product.outputs[0])
    behind = values_along_axis(c, product.outputs[0].rank, -1)
    return g.Add(g.MatMul(x, w), downcast_constant(g, behind + product_of_shift(x, v, product), w))


@rule(lambda g, a, b, c, gemm: g.Gemm(a, b, g.const(c)) @ gemm, contract=conditional("no product is a negative zero"))
def drop_zero_bias(g: Build, a: Value, b: Value, c: Value, gemm: Op) -> Value:
    """Gemm(a, b, 0) => Gemm(a, b)"""
    require(g.opset >= 11, "before opset 11 Gemm has to have a bias")
    require(not c.const.any() and c.const.size, "the bias is not zero")
    return g.Gemm(a, b, **gemm_attributes(gemm, beta=1.0))


def gemm_plus(g: Build, gemm: Op, d: Value, sign_of_gemm: int = 1, sign_of_d: int = 1) -> Value:
    """`gemm` plus `d`, each with its sign, as one Gemm."""
    a, b, c = operand(gemm), operand(gemm, 1), gemm.input(2)
    require(gemm.version >= 7 and d.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this version and type")
    require(broadcasts_to(d.shape, gemm.outputs[0].shape), f"{d.name} stretches the product")
    beta = alpha_or_beta(gemm, "beta") * sign_of_gemm
    alpha = alpha_or_beta(gemm, "alpha") * sign_of_gemm
    if c is not None and beta != 0:
        require(broadcasts_to(c.shape, gemm.outputs[0].shape), f"{c.name} does not fit the product")
        total = c.static_shape, d.static_shape
        require(np.prod(np.broadcast_shapes(*total)) <= sum(map(np.prod, total)), "the sum is larger than both")
        if alpha_or_beta(gemm, "beta") != 1:
            require_nonempty_sums(a, gemm)
        bias = c.const.astype(np.float64) * beta + d.const.astype(np.float64) * sign_of_d
        return g.Gemm(a, b, downcast_constant(g, bias, d), **gemm_attributes(gemm, alpha=alpha, beta=1.0))
    if sign_of_d < 0 and d.is_const:
        d, sign_of_d = g.const(-d.const), 1
    if sign_of_d < 0:
        require_nonempty_sums(a, gemm)
    return g.Gemm(a, b, d, **gemm_attributes(gemm, alpha=alpha, beta=float(sign_of_d)))


def require_gemm_applies(g: Build, a: Value, b: Value, c: Value, product: Op) -> None:
    """Decline unless a Gemm may stand for the MatMul `product` and `c`, added or subtracted."""
    require(g.opset >= 7, "before opset 7 Gemm and Sub do not broadcast by rule")
    require(a.rank == b.rank == 2, "Gemm multiplies matrices only")
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    require(broadcasts_to(c.shape, product.outputs[0].shape), f"{c.name} stretches the product")


def product_of_shift(x: Value, v: Value, product: Op) -> Array:
    """What `product` makes of the shift `v` of its operand `x`: one number for each column."""
    p = product_of(product, shared=True)
    require_no_norm(p.x)
    require_broadcastable_to(v, x)
    shift = values_along_axis(v, x.rank, -1)
    require(shift.size == 1 or not product.attr("transA", 0), "it is the rows of x that are shifted, not its columns")
    require(p.w.rank == 2, "the weights are no matrix")
    return np.broadcast_to(shift, p.extents[:1]) @ p.weights


def gemm_of_shifted(g: Build, x: Value, v: Value, product: Op, sign: int) -> Value:
    """`product` of `x + sign * v` as a Gemm of `x`."""
    p = product_of(product, shared=True)
    require(x.rank == p.w.rank == 2, "Gemm multiplies matrices only")
    bias = p.bias
    total = sign * product_of_shift(x, v, product) + (0 if bias is None else bias)
    attrs = gemm_attributes(product, beta=1.0) if product.type == "Gemm" else {}
    return g.Gemm(x, p.w, downcast_constant(g, total, p.w), **attrs)


FOLD_BIAS = RulePass(
    "fold-bias",
    (add_to_gemm, subtract_matmul, fold_shift_before_product, move_shift_behind_matmul, drop_zero_bias),
)
