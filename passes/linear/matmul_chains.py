"""Products with constant weights that follow one another, or meet in a sum, are one product."""

from __future__ import annotations

import numpy as np

from ...core import Build, Op, RulePass, Value, require, rule, same_extent
from ..support.operand_queries import downcast_constant, operand, require_broadcastable_to, values_along_axis
from .finite_values import is_finite
from .weighted_products import WeightedProduct, product_of, rebuild_product


@rule(
    lambda g, x, v, w, first, second, b=None, c=None: (
        g.one_of("MatMul", "Gemm")(g.one_of("MatMul", "Gemm")(x, g.const(v), b) @ first, g.const(w), c) @ second
    )
)
def merge_products(g: Build, x: Value, first: Op, second: Op) -> Value:
    """(x @ v + b) @ w + c => x @ (v @ w) + (b @ w + c)"""
    p, q = product_of(first), product_of(second)
    require(not second.attr("transA", 0), "the first product is transposed")
    require_no_growth(p, q)
    require_finite(x)
    bias, inner, weights = q.bias, p.bias, q.weights
    if inner is not None:
        moved = np.broadcast_to(inner, p.extents[1:]) @ weights
        bias = moved if bias is None else moved + bias
    return rebuild_product(g, p, x, p.weights @ weights, bias)


@rule(
    lambda g, x, v, b, w, first, second: (
        g.MatMul(g.Add(g.MatMul(x, g.const(v)) @ first, g.const(b)), g.const(w)) @ second
    )
)
def merge_products_around_bias(g: Build, x: Value, v: Value, b: Value, w: Value, first: Op, second: Op) -> Value:
    """(x @ v + b) @ w => x @ (v @ w) + b @ w"""
    p, q = product_of(first), product_of(second)
    require_no_growth(p, q)
    require_finite(x)
    between = first.outputs[0]
    require_broadcastable_to(b, between)
    weights = q.weights
    moved = np.broadcast_to(values_along_axis(b, between.rank, -1), p.extents[1:]) @ weights
    return g.Add(g.MatMul(x, downcast_constant(g, p.weights @ weights, v)), downcast_constant(g, moved, w))


@rule(
    lambda g, x, v, w, first, second: g.one_of("Add", "Sum")(
        g.MatMul(x, g.const(v)) @ first, g.MatMul(x, g.const(w)) @ second
    )
)
def merge_products_of_same_operand(g: Build, x: Value, v: Value, w: Value, first: Op, second: Op) -> Value:
    """(x @ v) + (x @ w) => x @ (v + w)"""
    p, q = product_of(first), product_of(second)
    require(v.static_shape == w.static_shape, "the weights differ in shape")
    require_finite(x)
    return g.MatMul(x, downcast_constant(g, p.weights + q.weights, v))


@rule(lambda g, w, p, q: g.Add(g.MatMul(..., w, ...) @ p, g.MatMul(..., w, ...) @ q))
def factor_out_operand(g: Build, w: Value, p: Op, q: Op) -> Value:
    """(x @ w) + (y @ w) => (x + y) @ w, (w @ x) + (w @ y) => w @ (x + y)"""
    side = 1 if p.inputs[1] is w is q.inputs[1] else 0
    require(p.inputs[side] is w is q.inputs[side], "the common factor is the left one of one product only")
    x, y = operand(p, 1 - side), operand(q, 1 - side)
    require_equal_shapes(x, y)
    require(w.is_const or is_finite(w), f"{w.name} may hold infinities")
    return g.MatMul(g.Add(x, y), w) if side else g.MatMul(w, g.Add(x, y))


def require_finite(x: Value) -> None:
    """Of infinities, two products may make NaN where one of the merged weights makes an infinity."""
    require(is_finite(x), f"{x.name} may hold infinities")


def require_no_growth(first: WeightedProduct, second: WeightedProduct) -> None:
    """One product may neither hold more numbers nor multiply more often than the two."""
    require(first.w.rank == second.w.rank == 2, "the weights are no matrices")
    (rows, inner), (same, columns) = first.extents, second.extents
    require(inner == same, "the products do not fit")
    require(rows * columns <= rows * inner + inner * columns, "the merged weights are larger")


def require_equal_shapes(x: Value, y: Value) -> None:
    """Two different computed values of one shape: then neither stretches the other."""
    require(x is not y and not (x.is_const or y.is_const), "the sum is no simpler")
    require(x.rank == y.rank and all(map(same_extent, x.shape, y.shape)), "the factors differ in shape")


MERGE_MATMULS = RulePass(
    "merge-matmuls",
    (
        merge_products,
        merge_products_around_bias,
        merge_products_of_same_operand,
        factor_out_operand,
    ),
)
