"""Transposes around products: Gemm reads its operands either way, and the product of transposes is a transpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import ROUNDING, Build, Op, RulePass, Value, require, rule
from .weighted_products import GEMM_TYPES, build_gemm, gemm_attributes, require_ort_matmul

Bias = Value | None
Perm = list[int] | None  # None reverses all axes


@rule(
    lambda g, a, b, p, t, gemm, c=None: g.Gemm(g.Transpose(a, perm=p) @ t, b, c) @ gemm, shared=True, contract=ROUNDING
)
def fold_left_transpose_into_gemm(g: Build, a: Value, b: Value, p: Perm, t: Op, gemm: Op, c: Bias) -> Value:
    """Gemm(Transpose(a), b, c, transA) => Gemm(a, b, c, not transA)"""
    require_only_product_consumers(t, p)
    require(gemm.version >= 7 and a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this version and type")
    return g.Gemm(a, b, c, **with_transpose_toggled(gemm, "transA"))


@rule(
    lambda g, a, b, p, t, gemm, c=None: g.Gemm(a, g.Transpose(b, perm=p) @ t, c) @ gemm, shared=True, contract=ROUNDING
)
def fold_right_transpose_into_gemm(g: Build, a: Value, b: Value, p: Perm, t: Op, gemm: Op, c: Bias) -> Value:
    """Gemm(a, Transpose(b), c, transB) => Gemm(a, b, c, not transB)"""
    require_only_product_consumers(t, p)
    require(gemm.version >= 7 and a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this version and type")
    return g.Gemm(a, b, c, **with_transpose_toggled(gemm, "transB"))


@rule(lambda g, a, b, p, t: g.MatMul(g.Transpose(a, perm=p) @ t, b), shared=True, contract=ROUNDING)
def fold_left_transpose_into_matmul(g: Build, a: Value, b: Value, p: Perm, t: Op) -> Value:
    """MatMul(Transpose(a), b) => Gemm(a, b, transA=1)"""
    require_only_product_consumers(t, p)
    return build_gemm(g, a, b, transA=1)


@rule(lambda g, a, b, p, t: g.MatMul(a, g.Transpose(b, perm=p) @ t), shared=True, contract=ROUNDING)
def fold_right_transpose_into_matmul(g: Build, a: Value, b: Value, p: Perm, t: Op) -> Value:
    """MatMul(a, Transpose(b)) => Gemm(a, b, transB=1)"""
    require_only_product_consumers(t, p)
    return build_gemm(g, a, b, transB=1)


@rule(lambda g, a, b, p, gemm, c=None: g.Transpose(g.Gemm(a, b, c) @ gemm, perm=p), contract=ROUNDING)
def fold_transpose_of_gemm(g: Build, a: Value, b: Value, p: Perm, gemm: Op, c: Bias) -> Value:
    """Transpose(Gemm(a, b, c, transA, transB)) => Gemm(b, a, Transpose(c), not transB, not transA), c constant"""
    require(gemm.version >= 7 and a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this version and type")
    require(swaps_last_two(p, 2), "it moves nothing")
    attrs = gemm_attributes(gemm)
    sides = {"transA": not attrs.pop("transB", 0), "transB": not attrs.pop("transA", 0)}
    turned_bias = None if c is None else g.const(np.atleast_2d(c.const).T)
    return g.Gemm(b, a, turned_bias, **attrs, **{side: 1 for side, turn in sides.items() if turn})


@rule(lambda g, a, b, p: g.Transpose(g.MatMul(a, b), perm=p), contract=ROUNDING)
def fold_transpose_of_matmul(g: Build, a: Value, b: Value, p: Perm) -> Value:
    """Transpose(MatMul(a, b)) => Gemm(b, a, transA=1, transB=1)"""
    require(swaps_last_two(p, 2), "there are more axes than two")
    return build_gemm(g, b, a, transA=1, transB=1)


@rule(lambda g, a, b, p, q: g.MatMul(g.Transpose(a, perm=p), g.Transpose(b, perm=q)), contract=ROUNDING)
def merge_operand_transposes(g: Build, a: Value, b: Value, p: Perm, q: Perm) -> Value:
    """MatMul(Transpose(a), Transpose(b)) => Transpose(MatMul(b, a)), last two axes swapped"""
    require(swaps_last_two(p, a.rank) and swaps_last_two(q, b.rank), "they move other axes than the last two")
    require_ort_matmul(b.shape, a.shape)
    rank = max(a.rank, b.rank)
    return g.Transpose(g.MatMul(b, a), perm=[*range(rank - 2), rank - 1, rank - 2])


@rule(lambda g, x, w, p, q: g.Transpose(g.MatMul(g.Transpose(x, perm=p), w), perm=q), contract=ROUNDING)
def cancel_transposes_around_matmul(g: Build, x: Value, w: Value, p: Perm, q: Perm) -> Value:
    """Transpose(MatMul(Transpose(x), w)) => MatMul(Transpose(w), x), last two axes swapped"""
    return g.MatMul(transposed_operand(g, x, w, p, q), x)


@rule(
    lambda g, x, w, c, p, q: g.Transpose(g.Add(g.MatMul(g.Transpose(x, perm=p), g.const(w)), g.const(c)), perm=q),
    contract=ROUNDING,
)
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
        fold_left_transpose_into_gemm,
        fold_right_transpose_into_gemm,
        fold_transpose_of_gemm,
        cancel_transposes_around_matmul_add,
        cancel_transposes_around_matmul,
        fold_transpose_of_matmul,
        merge_operand_transposes,
        fold_left_transpose_into_matmul,
        fold_right_transpose_into_matmul,
    ),
)
