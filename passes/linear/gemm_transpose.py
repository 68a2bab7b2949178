"""Folding of transposes around matrix products: Gemm reads either operand transposed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import operand
from .weighted_products import GEMM_TYPES, build_gemm, gemm_attributes, require_ort_matmul

Perm = list[int] | None  # None reverses all axes


@rule(
    lambda g, x, p, t, product: g.one_of("Gemm", "MatMul")(..., g.Transpose(x, perm=p) @ t, ...) @ product,
    shared=True,
)
def fold_transpose_into_product(g: Build, x: Value, p: Perm, t: Op, product: Op) -> Value:
    """Gemm(Transpose(a), b, c, transA) => Gemm(a, b, c, not transA); as well for b, and for MatMul"""
    side = product.inputs.index(t.outputs[0])
    require(side < 2, "it is the bias that is transposed")
    require_only_product_consumers(t, p)
    a, b = (x, operand(product, 1)) if side == 0 else (operand(product), x)
    turned = ("transA", "transB")[side]
    if product.type == "MatMul":
        return build_gemm(g, a, b, **{turned: 1})
    require(product.version >= 7 and a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this version and type")
    return g.Gemm(a, b, product.input(2), **with_transpose_toggled(product, turned))


@rule(lambda g, a, b, p, product, c=None: g.Transpose(g.one_of("Gemm", "MatMul")(a, b, c) @ product, perm=p))
def fold_transpose_of_product(g: Build, a: Value, b: Value, p: Perm, product: Op, c: Value | None) -> Value:
    """Transpose(Gemm(a, b, c, transA, transB)) => Gemm(b, a, Transpose(c), not transB, not transA), c constant"""
    require(swaps_last_two(p, 2), "it moves other axes than those of a matrix")
    if product.type == "MatMul":
        return build_gemm(g, b, a, transA=1, transB=1)
    require(product.version >= 7 and a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this version and type")
    attrs = gemm_attributes(product)
    sides = {"transA": not attrs.pop("transB", 0), "transB": not attrs.pop("transA", 0)}
    turned_bias = None if c is None else g.const(np.atleast_2d(c.const).T)
    return g.Gemm(b, a, turned_bias, **attrs, **{side: 1 for side, turn in sides.items() if turn})


@rule(lambda g, a, b, p, q: g.MatMul(g.Transpose(a, perm=p), g.Transpose(b, perm=q)))
def merge_operand_transposes(g: Build, a: Value, b: Value, p: Perm, q: Perm) -> Value:
    """MatMul(Transpose(a), Transpose(b)) => Transpose(MatMul(b, a)), last two axes swapped"""
    require(swaps_last_two(p, a.rank) and swaps_last_two(q, b.rank), "they move other axes than the last two")
    require_ort_matmul(b.shape, a.shape)
    rank = max(a.rank, b.rank)
    return g.Transpose(g.MatMul(b, a), perm=[*range(rank - 2), rank - 1, rank - 2])


@rule(lambda g, x, w, p, q: g.Transpose(g.MatMul(g.Transpose(x, perm=p), w), perm=q))
def cancel_transposes_around_matmul(g: Build, x: Value, w: Value, p: Perm, q: Perm) -> Value:
    """Transpose(MatMul(Transpose(x), w)) => MatMul(Transpose(w), x), last two axes swapped"""
    return g.MatMul(transposed_operand(g, x, w, p, q), x)


@rule(lambda g, x, w, c, p, q: g.Transpose(g.Add(g.MatMul(g.Transpose(x, perm=p), g.const(w)), g.const(c)), perm=q))
def cancel_transposes_around_matmul_add(g: Build, x: Value, w: Value, c: Value, p: Perm, q: Perm) -> Value:
    """Transpose(MatMul(Transpose(x), w) + c) => MatMul(Transpose(w), x) + Transpose(c), last two axes swapped"""
    require(c.rank <= x.rank, "the sum has more dims than the product")
    added = np.moveaxis(np.atleast_2d(c.const), -1, -2)
    return g.Add(g.MatMul(transposed_operand(g, x, w, p, q), x), g.const(added))


def transposed_operand(g: Build, x: Value, w: Value, p: Perm, q: Perm) -> Value:
    """Transpose(w) for a product between two transposes; a constant is transposed here."""
    require(2 <= w.rank <= x.rank, "the product has another rank than x")
    require(swaps_last_two(p, x.rank) and swaps_last_two(q, x.rank), "they move other axes than the last two")
    require_ort_matmul(w.shape, x.shape)
    if w.is_const:
        require(len(w.consumers) == 1, f"{w.name} is used elsewhere, and would be there twice")
        return g.const(np.moveaxis(w.const, -1, -2))
    return g.Transpose(w, perm=[*range(w.rank - 2), w.rank - 1, w.rank - 2])


def swaps_last_two(p: Perm, rank: int) -> bool:
    """Whether a Transpose swaps the last two axes of `rank`, and moves no other."""
    return rank >= 2 and (list(range(rank))[::-1] if p is None else p) == [*range(rank - 2), rank - 1, rank - 2]


def require_only_product_consumers(t: Op, p: Perm) -> None:
    """A Transpose of a computed matrix has to become unnecessary once all products that read it do without it."""
    x, out = t.inputs[0], t.outputs[0]
    require(x is not None and not x.is_const, "a constant is transposed once and for all")
    require(swaps_last_two(p, 2), "it does not transpose a matrix")
    reads = all(user.type in {"MatMul", "Gemm"} for user in out.consumers)
    require(reads and not t.graph.is_output(out) and out not in t.graph.pinned, "it is needed by others as well")


def with_transpose_toggled(gemm: Op, side: str) -> dict[str, Any]:
    """The attributes of `gemm`, with transA or transB the other way round."""
    attrs = gemm_attributes(gemm)
    if attrs.pop(side, None) is None:
        attrs[side] = 1
    return attrs


FOLD_TRANSPOSE_INTO_GEMM = RulePass(
    "fold-transpose-into-gemm",
    (
        cancel_transposes_around_matmul_add,
        cancel_transposes_around_matmul,
        fold_transpose_of_product,
        merge_operand_transposes,
        fold_transpose_into_product,
    ),
)
