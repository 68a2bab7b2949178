"""Fusion of Gemm, and folding of transposes, scales and sums into it.

`fuse-gemm`: Fusion of a matrix product and a bias into a Gemm.
`fold-scale-into-gemm`: Folding of the scale of a matrix product into the alpha of a Gemm.
`fold-bias`: Folding of additions to a matrix product, or to its operand, into the bias of a Gemm.
`fold-transpose-into-gemm`: Folding of transposes of a product and of its operands into the attributes of a Gemm.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...core import Op, RewriteBuilder, Value, broadcasts_to, require, rule
from ...core.operators.operands import full_perm
from ..support.operand_queries import (
    NO_RESULT_OF_ZERO,
    broadcast_extents,
    downcast_constant,
    operand,
    require_broadcastable_to,
    values_along_axis,
)
from .affine import SCALE_OPS, nonzero_scale, other_operand, require_no_gelu, require_no_norm, required_factor
from .weighted_products import (
    GEMM_TYPES,
    PRODUCTS,
    Array,
    alpha_or_beta,
    build_gemm,
    float32_attributes,
    gemm_attributes,
    product_of,
    require_nonempty_sums,
    require_ort_matmul,
)


@rule(lambda g, a, b, c: g.Add(g.MatMul(a, b), c), group="fuse-gemm")
def matmul_add_to_gemm(g: RewriteBuilder, a: Value, b: Value, c: Value) -> Value:
    """MatMul(a, b) + c => Gemm(a, b, c)"""
    require(g.opset >= 7, "before opset 7 Gemm and Add do not broadcast by rule")
    require(a.rank == b.rank == 2, "Gemm multiplies matrices only")
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    product, given = (a.shape[0], b.shape[1]), c.shape
    fits = broadcasts_to(given, product)
    require(fits, f"Gemm stretches c to the product only: c is {list(given)}, it {list(product)}")
    return g.Gemm(a, b, c)


@rule(
    lambda g, product, op: g.one_of(*SCALE_OPS)(..., g.one_of(*PRODUCTS)(...) @ product, ...) @ op,
    group="fold-scale-into-gemm",
)
def fold_scale_of_product(g: RewriteBuilder, product: Op, op: Op) -> Value:
    """S * Gemm(a, b, c, alpha, beta) => Gemm(a, b, c, alpha * s, beta * s), s * MatMul(a, b) => Gemm(a, b, alpha=s)"""
    s = required_factor(op, product.outputs[0])
    return scaled_gemm(g, product, operand(product), operand(product, 1), s, scales_bias=True)


@rule(
    lambda g, x, s, product, op: g.one_of(*PRODUCTS)(..., g.Mul(x, g.const(s)) @ op, ...) @ product,
    group="fold-scale-into-gemm",
)
def fold_scale_of_operand(g: RewriteBuilder, x: Value, s: Value, product: Op, op: Op) -> Value:
    """Gemm(a * s, b, c, alpha) => Gemm(a, b, c, alpha * s), MatMul(a * s, b) => Gemm(a, b, alpha=s); as well for b"""
    side = product.inputs.index(op.outputs[0])
    require(side < 2, "it is the bias that is scaled")
    require_broadcastable_to(s, x)
    if side == 0:
        require_no_gelu(op.outputs[0])
    a, b = (x, operand(product, 1)) if side == 0 else (operand(product), x)
    return scaled_gemm(g, product, a, b, nonzero_scale(s), scales_bias=False)


def scaled_gemm(g: RewriteBuilder, product: Op, a: Value, b: Value, s: float, *, scales_bias: bool) -> Value:
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


@rule(lambda g, gemm, op: g.one_of("Add", "Sub", "Sum")(..., g.Gemm(...) @ gemm, ...) @ op, group="fold-bias")
def add_to_gemm(g: RewriteBuilder, gemm: Op, op: Op) -> Value:
    """D + Gemm(a, b, c, alpha, beta) => Gemm(a, b, d + c * beta, alpha); as well for differences, with signs"""
    d = other_operand(op, gemm.outputs[0])
    signs = (1, 1) if op.type != "Sub" else (-1, 1) if op.inputs[0] is d else (1, -1)
    return gemm_plus(g, gemm, d, *signs)


@rule(lambda g, a, b, product, op: g.Sub(..., g.MatMul(a, b) @ product, ...) @ op, group="fold-bias")
def subtract_matmul(g: RewriteBuilder, a: Value, b: Value, product: Op, op: Op) -> Value:
    """MatMul(a, b) - d => Gemm(a, b, d, beta=-1), or Gemm(a, b, -d) where d is constant; d - it => Gemm(alpha=-1)"""
    d = other_operand(op, product.outputs[0])
    require(g.opset >= 7, "before opset 7 Gemm and Sub do not broadcast by rule")
    require(a.rank == b.rank == 2, "Gemm multiplies matrices only")
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    require(broadcasts_to(d.shape, product.outputs[0].shape), f"{d.name} stretches the product")
    if op.inputs[0] is d:
        return g.Gemm(a, b, d, alpha=-1.0)
    if d.is_const:
        return g.Gemm(a, b, g.const(-d.const))
    require_nonempty_sums(a, product)
    return g.Gemm(a, b, d, beta=-1.0)


@rule(
    lambda g, x, v, w, op, product: (
        g.one_of(*PRODUCTS)(g.one_of("Add", "Sub")(x, g.const(v)) @ op, g.const(w), ...) @ product
    ),
    group="fold-bias",
)
def fold_shift_before_product(g: RewriteBuilder, x: Value, v: Value, op: Op, product: Op) -> Value:
    """(x + v) @ w + c => Gemm(x, w, v @ w + c), (x - v) @ w + c => Gemm(x, w, c - v @ w)"""
    p = product_of(product, allow_other_uses=True)
    require(x.rank == p.w.rank == 2, "Gemm multiplies matrices only")
    bias, shift = p.bias, product_of_shift(x, v, product)
    total = (-shift if op.type == "Sub" else shift) + (0 if bias is None else bias)
    attrs = gemm_attributes(product, beta=1.0) if product.type == "Gemm" else {}
    return g.Gemm(x, p.w, downcast_constant(g, total, p.w), **attrs)


@rule(
    lambda g, x, v, w, c, product: g.Add(g.MatMul(g.Add(x, g.const(v)), g.const(w)) @ product, g.const(c)),
    group="fold-bias",
)
def move_shift_behind_matmul(g: RewriteBuilder, x: Value, v: Value, w: Value, c: Value, product: Op) -> Value:
    """MatMul(x + v, w) + c => MatMul(x, w) + (v @ w + c)"""
    require_broadcastable_to(c, product.outputs[0])
    behind = values_along_axis(c, product.outputs[0].rank, -1)
    return g.Add(g.MatMul(x, w), downcast_constant(g, behind + product_of_shift(x, v, product), w))


@rule(lambda g, a, b, c, op: g.Gemm(a, b, g.const(c)) @ op, contract=NO_RESULT_OF_ZERO, group="fold-bias")
def drop_zero_bias(g: RewriteBuilder, a: Value, b: Value, c: Value, op: Op) -> Value:
    """Gemm(a, b, 0) => Gemm(a, b)"""
    require(g.opset >= 11, "before opset 11 Gemm has to have a bias")
    require(not c.const.any() and c.const.size, "the bias is not zero")
    return g.Gemm(a, b, **gemm_attributes(op, beta=1.0))


def gemm_plus(g: RewriteBuilder, gemm: Op, d: Value, sign_of_gemm: int, sign_of_d: int) -> Value:
    """`gemm` plus `d`, each with its sign, as one Gemm."""
    a, b, c = operand(gemm), operand(gemm, 1), gemm.input(2)
    require(gemm.version >= 7 and d.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this version and type")
    require(broadcasts_to(d.shape, gemm.outputs[0].shape), f"{d.name} stretches the product")
    beta = alpha_or_beta(gemm, "beta") * sign_of_gemm
    alpha = alpha_or_beta(gemm, "alpha") * sign_of_gemm
    if c is not None and beta != 0:
        require(broadcasts_to(c.shape, gemm.outputs[0].shape), f"{c.name} does not fit the product")
        total = c.static_shape, d.static_shape
        require(prod(broadcast_extents(*total)) <= sum(map(prod, total)), "the sum is larger than both")
        if alpha_or_beta(gemm, "beta") != 1:
            require_nonempty_sums(a, gemm)
        bias = c.const.astype(np.float64) * beta + d.const.astype(np.float64) * sign_of_d
        return g.Gemm(a, b, downcast_constant(g, bias, d), **gemm_attributes(gemm, alpha=alpha, beta=1.0))
    if sign_of_d < 0 and d.is_const:
        d, sign_of_d = g.const(-d.const), 1
    if sign_of_d < 0:
        require_nonempty_sums(a, gemm)
    return g.Gemm(a, b, d, **gemm_attributes(gemm, alpha=alpha, beta=float(sign_of_d)))


def product_of_shift(x: Value, v: Value, product: Op) -> Array:
    """The `product` of the shift `v` of its operand `x`: one number for each column."""
    p = product_of(product, allow_other_uses=True)
    require_no_norm(p.x)
    require_broadcastable_to(v, x)
    shift = values_along_axis(v, x.rank, -1)
    require(shift.size == 1 or not product.attr("transA", 0), "it is the rows of x that are shifted, not its columns")
    require(p.w.rank == 2, "the weights are not a matrix")
    return np.broadcast_to(shift, p.extents[:1]) @ p.weights


Perm = list[int] | None  # None reverses all axes


@rule(
    lambda g, x, w, p, q: g.Transpose(g.MatMul(g.Transpose(x, perm=p), w), perm=q),
    lambda g, x, w, c, p, q: g.Transpose(g.Add(g.MatMul(g.Transpose(x, perm=p), g.const(w)), g.const(c)), perm=q),
    group="fold-transpose-into-gemm",
)
def cancel_transposes_around_matmul(
    g: RewriteBuilder, x: Value, w: Value, p: Perm, q: Perm, c: Value | None = None
) -> Value:
    """Transpose(MatMul(Transpose(x), w) + c) => MatMul(Transpose(w), x) + Transpose(c), last two axes swapped"""
    require(c is None or c.rank <= x.rank, "the sum has more dims than the product")
    require(2 <= w.rank <= x.rank, "the product has another rank than x")
    require(swaps_last_two(p, x.rank) and swaps_last_two(q, x.rank), "they move other axes than the last two")
    require_ort_matmul(w.shape, x.shape)
    require(not w.is_const or len(w.consumers) == 1, f"{w.name} is used elsewhere, and would be there twice")
    turned = [*range(w.rank - 2), w.rank - 1, w.rank - 2]
    product = g.MatMul(g.const(w.const.transpose(turned)) if w.is_const else g.Transpose(w, perm=turned), x)
    return product if c is None else g.Add(product, g.const(np.moveaxis(np.atleast_2d(c.const), -1, -2)))


@rule(
    lambda g, a, b, p, product, c=None: g.Transpose(g.one_of(*PRODUCTS)(a, b, c) @ product, perm=p),
    group="fold-transpose-into-gemm",
)
def fold_transpose_of_product(g: RewriteBuilder, a: Value, b: Value, p: Perm, product: Op, c: Value | None) -> Value:
    """Transpose(Gemm(a, b, c, transA, transB)) => Gemm(b, a, Transpose(c), not transB, not transA), c constant"""
    require(swaps_last_two(p, 2), "it moves other axes than those of a matrix")
    if product.type == "MatMul":
        return build_gemm(g, b, a, transA=1, transB=1)
    require(product.version >= 7 and a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this version and type")
    attrs = gemm_attributes(product)
    sides = {"transA": not attrs.pop("transB", 0), "transB": not attrs.pop("transA", 0)}
    turned_bias = None if c is None else g.const(np.atleast_2d(c.const).T)
    return g.Gemm(b, a, turned_bias, **attrs, **{side: 1 for side, turn in sides.items() if turn})


@rule(lambda g, a, b, p, q: g.MatMul(g.Transpose(a, perm=p), g.Transpose(b, perm=q)), group="fold-transpose-into-gemm")
def merge_operand_transposes(g: RewriteBuilder, a: Value, b: Value, p: Perm, q: Perm) -> Value:
    """MatMul(Transpose(a), Transpose(b)) => Transpose(MatMul(b, a)), last two axes swapped"""
    require(swaps_last_two(p, a.rank) and swaps_last_two(q, b.rank), "they move other axes than the last two")
    require_ort_matmul(b.shape, a.shape)
    rank = max(a.rank, b.rank)
    return g.Transpose(g.MatMul(b, a), perm=[*range(rank - 2), rank - 1, rank - 2])


@rule(
    lambda g, x, p, t, product: g.one_of(*PRODUCTS)(..., g.Transpose(x, perm=p) @ t, ...) @ product,
    allow_other_uses=True,
    group="fold-transpose-into-gemm",
)
def fold_transpose_into_product(g: RewriteBuilder, x: Value, p: Perm, t: Op, product: Op) -> Value:
    """Gemm(Transpose(a), b, c, transA) => Gemm(a, b, c, not transA); as well for b, and for MatMul"""
    side = product.inputs.index(t.outputs[0])
    require(side < 2, "it is the bias that is transposed")
    out, readers = t.outputs[0], t.outputs[0].consumers
    require(not x.is_const, "a constant is transposed once and for all")
    require(swaps_last_two(p, 2), "it does not transpose a matrix")
    # A computed matrix has to become unnecessary once all products that read it do without it.
    is_private = not t.graph.is_output(out) and out not in t.graph.pinned
    require(is_private and all(r.type in {"MatMul", "Gemm"} for r in readers), "it is needed by others as well")
    a, b = (x, operand(product, 1)) if side == 0 else (operand(product), x)
    turned = ("transA", "transB")[side]
    if product.type == "MatMul":
        return build_gemm(g, a, b, **{turned: 1})
    require(product.version >= 7 and a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this version and type")
    attrs = gemm_attributes(product)
    if attrs.pop(turned, None) is None:
        attrs[turned] = 1
    return g.Gemm(a, b, product.input(2), **attrs)


def swaps_last_two(p: Perm, rank: int) -> bool:
    """Whether a Transpose swaps the last two axes of `rank`, and moves no other."""
    return rank >= 2 and full_perm(p, rank) == [*range(rank - 2), rank - 1, rank - 2]
