"""Removal of reshapes around matrix products."""

from __future__ import annotations

from ...core import Build, Op, RulePass, Value, require, rule, same_extent
from ...core.ir.dims import Shape
from ..support.operand_queries import has_n_consumers, inferred_shape, require_numpy_broadcasting, same_shape
from .reshape_targets import RESHAPE_OPS


@rule(
    lambda g, x, w, inner, product, outer: (
        g.Reshape(
            g.MatMul(g.one_of(*RESHAPE_OPS)(x, ...) @ inner, w) @ product, ...
        ) @ outer
    ),
    shared=True,
)  # fmt: skip
def multiply_without_reshapes(g: Build, x: Value, w: Value, inner: Op, product: Op, outer: Op) -> Value:
    """Reshape(MatMul(Reshape(x, (-1, k)), w), t) => MatMul(x, w), of a matrix w"""
    require(has_n_consumers(product.outputs[0]), "the product has other consumers")
    require_rows_restored(x, w.shape, inner, outer)
    return g.MatMul(x, w)


@rule(
    lambda g, x, w, c, inner, product, total, outer: (
        g.Reshape(
            g.Add(
                g.MatMul(g.one_of(*RESHAPE_OPS)(x, ...) @ inner, w) @ product, c
            ) @ total,
            ...,
        ) @ outer
    ),
    shared=True,
)  # fmt: skip
def add_bias_without_reshapes(
    g: Build, x: Value, w: Value, c: Value, inner: Op, product: Op, total: Op, outer: Op
) -> Value:
    """Reshape(MatMul(Reshape(x, (-1, k)), w) + c, t) => MatMul(x, w) + c, of a matrix w and a vector c"""
    require(
        has_n_consumers(product.outputs[0]) and has_n_consumers(total.outputs[0]), "the product has other consumers"
    )
    require_row_bias(c, w.shape, x)
    require_rows_restored(x, w.shape, inner, outer)
    return g.Add(g.MatMul(x, w), c)


@rule(
    lambda g, x, w, gemm, inner, outer, c=None: (
        g.Reshape(
            g.Gemm(g.one_of(*RESHAPE_OPS)(x, ...) @ inner, w, c) @ gemm, ...
        ) @ outer
    ),
    shared=True,
)  # fmt: skip
def gemm_without_reshapes(g: Build, x: Value, w: Value, c: Value | None, gemm: Op, inner: Op, outer: Op) -> Value:
    """Reshape(Gemm(Reshape(x, (-1, k)), w, c), t) => MatMul(x, w) + c, of a vector c and no scales"""
    require_numpy_broadcasting(g.opset)
    require(has_n_consumers(gemm.outputs[0]), "the product has other consumers")
    require((gemm.attr("alpha", 1.0), gemm.attr("beta", 1.0)) == (1.0, 1.0), "a scale is not 1")
    is_transposed = bool(gemm.attr("transB", 0))
    require(not gemm.attr("transA", 0) and x.rank > 2, "Gemm takes these operands as they are")
    require(not is_transposed or (w.is_const and len(w.consumers) == 1), "the weights would be stored twice")
    columns = w.shape[::-1] if is_transposed else w.shape
    if c is not None:
        require_row_bias(c, columns, x)
    require_rows_restored(x, columns, inner, outer)
    product = g.MatMul(x, g.const(w.const.T) if is_transposed else w)
    return product if c is None else g.Add(product, c)


def require_rows_restored(x: Value, factor: Shape, inner: Op, outer: Op) -> None:
    """Decline unless `inner` keeps the rows of `x` and `outer` restores them in the product with `factor`."""
    require(len(factor) == 2, "the second factor is not a matrix")
    rows = inner.outputs[0].shape
    require(len(rows) == 2 and x.rank > 0, "the first factor is not a matrix")
    require(same_extent(rows[1], x.shape[-1]), "the reshape changes the rows")
    require(isinstance(factor[1], int) and factor[1] > 0, "the number of columns is unknown")
    require(same_shape(inferred_shape(outer), (*x.shape[:-1], factor[1])), "the shapes differ")


def require_row_bias(c: Value, factor: Shape, x: Value) -> None:
    """Decline unless `c` is one number for each column of `factor`, or for all."""
    shape = c.shape
    fits = len(shape) <= min(2, x.rank) and all(d == 1 for d in shape[:-1]) and shape[-1:] in {(), (1,), factor[-1:]}
    require(fits, "the addend differs between rows")


MULTIPLY_WITHOUT_RESHAPES = RulePass(
    "multiply-without-reshapes", (multiply_without_reshapes, add_bias_without_reshapes, gemm_without_reshapes)
)
