"""Fusion of Gemm, and folding of transposes, scales and sums into it.

`fuse-gemm`: Fusion of a matrix product and a bias into a Gemm.
`fold-scale-into-gemm`: Folding of the scale of a matrix product into the alpha of a Gemm.
`fold-bias`: Folding of additions to a matrix product, or to its operand, into the bias of a Gemm.
`fold-transpose-into-gemm`: Folding of transposes of a product and of its operands into the attributes of a Gemm.
"""

from __future__ import annotations

from math import prod

import numpy as np
from msgspec.structs import replace

from ...core import Op, RewriteBuilder, Value, broadcasts_to, require, rule
from ...core.operators.operands import full_perm
from ..support.operand_queries import (
    NO_RESULT_OF_ZERO,
    Array,
    addend_along_last_axis,
    broadcast_extents,
    downcast_constant,
    require_no_rounding,
    sum_of_constants,
    swap_of_last_two,
)
from .affine import SCALE_OPS, other_operand, require_no_gelu, require_no_norm, required_factor
from .products import PRODUCTS, Product, require_ort_matmul, weighted_product


@rule(lambda g, a, b, c, product, op: g.Add(g.MatMul(a, b) @ product, c) @ op, group="fuse-gemm")
def matmul_add_to_gemm(g: RewriteBuilder, product: Op, op: Op) -> Value:
    """MatMul(a, b) + c => Gemm(a, b, c)"""
    return gemm_of_sum(g, product, op)


@rule(
    lambda g, product, op: g.one_of(*SCALE_OPS)(..., g.one_of(*PRODUCTS)(...) @ product, ...) @ op,
    group="fold-scale-into-gemm",
)
def fold_scale_of_product(g: RewriteBuilder, product: Op, op: Op) -> Value:
    """S * Gemm(a, b, c, alpha, beta) => Gemm(a, b, c, alpha * s, beta * s), s * MatMul(a, b) => Gemm(a, b, alpha=s)"""
    p, s = Product.of(product), required_factor(op, product.outputs[0])
    require_no_rounding(p.c)
    if p.c is None:
        return replace(p, alpha=p.alpha * s).build(g)
    p.require_nonempty_sums()
    return replace(p, alpha=p.alpha * s, beta=p.beta * s).build(g)


@rule(
    lambda g, x, s, product, op: g.one_of(*PRODUCTS)(..., g.Mul(x, g.const(s)) @ op, ...) @ product,
    group="fold-scale-into-gemm",
)
def fold_scale_of_operand(g: RewriteBuilder, x: Value, product: Op, op: Op) -> Value:
    """Gemm(a * s, b, c, alpha) => Gemm(a, b, c, alpha * s), MatMul(a * s, b) => Gemm(a, b, alpha=s); as well for b"""
    p, scaled = Product.of(product), op.outputs[0]
    require(scaled in {p.a, p.b}, "it is the bias that is scaled")
    p = replace(p, alpha=p.alpha * required_factor(op, x))
    if scaled is not p.a:
        return replace(p, b=x).build(g)
    require_no_gelu(scaled)
    return replace(p, a=x).build(g)


@rule(lambda g, gemm, op: g.one_of("Add", "Sub", "Sum")(..., g.Gemm(...) @ gemm, ...) @ op, group="fold-bias")
def add_to_gemm(g: RewriteBuilder, gemm: Op, op: Op) -> Value:
    """D + Gemm(a, b, c, alpha, beta) => Gemm(a, b, d + c * beta, alpha); as well for differences, with signs"""
    return gemm_of_sum(g, gemm, op)


@rule(lambda g, a, b, product, op: g.Sub(..., g.MatMul(a, b) @ product, ...) @ op, group="fold-bias")
def subtract_matmul(g: RewriteBuilder, product: Op, op: Op) -> Value:
    """MatMul(a, b) - d => Gemm(a, b, d, beta=-1), or Gemm(a, b, -d) where d is constant; d - it => Gemm(alpha=-1)"""
    return gemm_of_sum(g, product, op)


def gemm_of_sum(g: RewriteBuilder, product: Op, op: Op) -> Value:
    """The Gemm that gives an Add, Sub or Sum of `product` and another value, which takes the place of a bias."""
    p, d, out = Product.of(product), other_operand(op, product.outputs[0]), product.outputs[0]
    sign, sign_of_d = (1, 1) if op.type != "Sub" else (-1, 1) if op.inputs[0] is d else (1, -1)
    require(broadcasts_to(d.shape, out.shape), f"{d.name} of {list(d.shape)} stretches the product")
    require_no_rounding(p.c, d)
    total = replace(p, alpha=p.alpha * sign, beta=1.0)
    if p.c is not None and p.beta != 0:
        require(broadcasts_to(p.c.shape, out.shape), f"{p.c.name} does not fit the product")
        shapes = p.c.static_shape, d.static_shape
        require(prod(broadcast_extents(*shapes)) <= sum(map(prod, shapes)), "the sum is larger than both")
        if p.beta != 1:
            p.require_nonempty_sums()
        terms = p.c.const.astype(np.float64) * p.beta * sign, d.const.astype(np.float64) * sign_of_d
        bias = sum_of_constants(d, *terms)
        return replace(total, c=downcast_constant(g, bias, d)).build(g)
    if sign_of_d > 0 or d.is_const:
        return replace(total, c=d if sign_of_d > 0 else g.const(-d.const)).build(g)
    p.require_nonempty_sums()
    return replace(total, c=d, beta=-1.0).build(g)


@rule(
    lambda g, x, v, w, op, product: (
        g.one_of(*PRODUCTS)(g.one_of("Add", "Sub")(x, g.const(v)) @ op, g.const(w), ...) @ product
    ),
    group="fold-bias",
)
def fold_shift_before_product(g: RewriteBuilder, x: Value, v: Value, op: Op, product: Op) -> Value:
    """(x + v) @ w + c => Gemm(x, w, v @ w + c), (x - v) @ w + c => Gemm(x, w, c - v @ w)"""
    p = weighted_product(product, allow_other_uses=True)
    require(x.rank == p.b.rank == 2, "Gemm multiplies matrices only")
    bias, shift = p.bias, product_of_shift(x, v, product)
    shift = -shift if op.type == "Sub" else shift
    total = shift if bias is None else sum_of_constants(p.b, shift, bias)
    return replace(p.with_bias(g, total), a=x).build(g)


@rule(
    lambda g, x, v, w, c, product: g.Add(g.MatMul(g.Add(x, g.const(v)), g.const(w)) @ product, g.const(c)),
    group="fold-bias",
)
def move_shift_behind_matmul(g: RewriteBuilder, x: Value, v: Value, w: Value, c: Value, product: Op) -> Value:
    """MatMul(x + v, w) + c => MatMul(x, w) + (v @ w + c)"""
    behind = addend_along_last_axis(c, product.outputs[0])
    bias = sum_of_constants(w, behind, product_of_shift(x, v, product))
    return g.Add(g.MatMul(x, w), downcast_constant(g, bias, w))


@rule(lambda g, a, b, c, op: g.Gemm(a, b, g.const(c)) @ op, contract=NO_RESULT_OF_ZERO, group="fold-bias")
def drop_zero_bias(g: RewriteBuilder, c: Value, op: Op) -> Value:
    """Gemm(a, b, 0) => Gemm(a, b)"""
    require(g.opset >= 11, "before opset 11 Gemm has to have a bias")
    require(not c.const.any() and c.const.size, "the bias is not zero")
    return replace(Product.of(op), c=None, beta=1.0).build(g)


def product_of_shift(x: Value, v: Value, product: Op) -> Array:
    """The `product` of the shift `v` of its operand `x`: one number for each column."""
    p = weighted_product(product, allow_other_uses=True)
    require_no_norm(p.a)
    shift = addend_along_last_axis(v, x)
    require(shift.size == 1 or not p.trans_a, "it is the rows of x that are shifted, not its columns")
    require(p.b.rank == 2, "the weights are not a matrix")
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
    turned = swap_of_last_two(w.rank)
    product = g.MatMul(g.const(w.const.transpose(turned)) if w.is_const else g.Transpose(w, perm=turned), x)
    return product if c is None else g.Add(product, g.const(np.moveaxis(np.atleast_2d(c.const), -1, -2)))


@rule(
    lambda g, a, b, p, product, c=None: g.Transpose(g.one_of(*PRODUCTS)(a, b, c) @ product, perm=p),
    group="fold-transpose-into-gemm",
)
def fold_transpose_of_product(g: RewriteBuilder, p: Perm, product: Op) -> Value:
    """Transpose(Gemm(a, b, c, transA, transB)) => Gemm(b, a, Transpose(c), not transB, not transA), c constant"""
    require(swaps_last_two(p, 2), "it does not swap the axes of a matrix")
    old = Product.of(product)
    c = None if old.c is None else g.const(np.atleast_2d(old.c.const).T)
    return replace(old, a=old.b, b=old.a, c=c, trans_a=not old.trans_b, trans_b=not old.trans_a).build(g)


@rule(lambda g, a, b, p, q: g.MatMul(g.Transpose(a, perm=p), g.Transpose(b, perm=q)), group="fold-transpose-into-gemm")
def merge_operand_transposes(g: RewriteBuilder, a: Value, b: Value, p: Perm, q: Perm) -> Value:
    """MatMul(Transpose(a), Transpose(b)) => Transpose(MatMul(b, a)), last two axes swapped"""
    require(swaps_last_two(p, a.rank) and swaps_last_two(q, b.rank), "they move other axes than the last two")
    require_ort_matmul(b.shape, a.shape)
    return g.Transpose(g.MatMul(b, a), perm=swap_of_last_two(max(a.rank, b.rank)))


@rule(
    lambda g, x, p, t, product: g.one_of(*PRODUCTS)(..., g.Transpose(x, perm=p) @ t, ...) @ product,
    allow_other_uses=True,
    group="fold-transpose-into-gemm",
)
def fold_transpose_into_product(g: RewriteBuilder, x: Value, p: Perm, t: Op, product: Op) -> Value:
    """Gemm(Transpose(a), b, c, transA) => Gemm(a, b, c, not transA); as well for b, and for MatMul"""
    old, out, readers = Product.of(product), t.outputs[0], t.outputs[0].consumers
    require(out in {old.a, old.b}, "it is the bias that is transposed")
    require(not x.is_const, "a constant is transposed once and for all")
    require(swaps_last_two(p, 2), "it does not transpose a matrix")
    # A computed matrix has to become unnecessary once all products that read it do without it.
    is_private = not t.graph.is_output(out) and out not in t.graph.pinned
    require(is_private and all(r.type in PRODUCTS for r in readers), "it is needed by others as well")
    if out is old.a:
        return replace(old, a=x, trans_a=not old.trans_a).build(g)
    return replace(old, b=x, trans_b=not old.trans_b).build(g)


def swaps_last_two(p: Perm, rank: int) -> bool:
    """Whether a Transpose swaps the last two axes of `rank`, and moves no other."""
    return rank >= 2 and full_perm(p, rank) == swap_of_last_two(rank)
