"""Replacement of an Einsum by the operator that computes the same: MatMul, Gemm, Mul, ReduceSum or Transpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from msgspec import Struct
from onnx import TensorProto

from ...core import EXACT, MatchFailure, Op, RewriteBuilder, Value, require, rule, same_extent
from ...core.ir.expressions import Shape
from ..support.operand_queries import NO_RESULT_OF_ZERO
from .products import GEMM_TYPES, Product, require_ort_matmul

Term = tuple[str, ...]
ELLIPSIS = "..."


class Equation(Struct, frozen=True):
    """A label for each axis of each operand and of the result; labels of an ellipsis are numbers."""

    terms: tuple[Term, ...]
    result: Term


def parse_equation(text: str, ranks: Sequence[int]) -> Equation:
    """Read an equation for operands of these ranks (operator Einsum); declines one that takes diagonals."""
    left, arrow, right = text.replace(" ", "").partition("->")
    sides = left.split(",")
    require(len(sides) == len(ranks), "the operands are not as many as the terms")
    widths = {rank - len(side) + len(ELLIPSIS) for side, rank in zip(sides, ranks, strict=True) if ELLIPSIS in side}
    require(len(widths) <= 1, "an ellipsis must have the same number of axes everywhere")
    dots = tuple(map(str, range(max(widths, default=0))))
    terms = tuple(_parse_labels(side, dots) for side in sides)
    require(tuple(map(len, terms)) == tuple(ranks), "the terms do not fit the ranks")
    counts = Counter(label for term in terms for label in term)
    if not arrow:
        right = ELLIPSIS + "".join(sorted(label for label, n in counts.items() if n == 1 and not label.isdigit()))
    result = _parse_labels(right, dots)
    require(counts.keys() >= set(result), "the result has labels of its own")
    require(set(dots) <= set(result), "an ellipsis is summed over")
    return Equation(terms, result)


def _parse_labels(side: str, dots: Term) -> Term:
    """The labels of a term, each once."""
    before, ellipsis, after = side.partition(ELLIPSIS)
    labels = (*before, *(dots if ellipsis else ()), *after)
    require(all(c.isascii() and c.isalpha() for c in before + after), "a label is not a letter")
    require(len(set(labels)) == len(labels), "a label is named twice")
    return labels


# onnxruntime has MatMul, Mul and ReduceSum for all of these.
MATMUL_TYPES = GEMM_TYPES | {TensorProto.INT32, TensorProto.INT64}


@rule(lambda g, x, e: g.Einsum(x, equation=e), contract=EXACT, group="simplify-einsum")
def einsum_to_transpose(g: RewriteBuilder, x: Value, e: str) -> Value:
    """Einsum(x, "ij->ji") => Transpose(x), or x where that moves nothing"""
    eq = parse_equation(e, [x.rank])
    term = eq.terms[0]
    require(set(term) == set(eq.result), "it sums")
    return x if term == eq.result else g.Transpose(x, perm=[term.index(label) for label in eq.result])


@rule(lambda g, x, e: g.Einsum(x, equation=e), group="simplify-einsum")
def einsum_to_reduce_sum(g: RewriteBuilder, x: Value, e: str) -> Value:
    """Einsum(x, "ij->i") => ReduceSum(x)"""
    eq = parse_equation(e, [x.rank])
    term = eq.terms[0]
    axes = [i for i, label in enumerate(term) if label not in eq.result]
    require(axes and x.dtype in MATMUL_TYPES, "it sums nothing, or nothing that can be summed")
    require(tuple(label for label in term if label in eq.result) == eq.result, "it transposes too")
    return g.ReduceSum(x, axes=axes, keepdims=0)


# onnxruntime makes a matrix product of it, which adds the product to a zero.
@rule(lambda g, a, b, e, op: g.Einsum(a, b, equation=e) @ op, contract=NO_RESULT_OF_ZERO, group="simplify-einsum")
def einsum_to_mul(g: RewriteBuilder, a: Value, b: Value, e: str, op: Op) -> Value:
    """Einsum(a, b, "ij,j->ij") => Mul(a, b)"""
    eq = parse_equation(e, [a.rank, b.rank])
    require(a.dtype in MATMUL_TYPES, "onnxruntime may not multiply this type")
    require(
        eq.result in eq.terms and all(ends_with(eq.result, term) for term in eq.terms), "it does more than broadcast"
    )
    return g.Mul(a, b)


@rule(lambda g, a, b, e: g.Einsum(a, b, equation=e), group="simplify-einsum")
def einsum_to_matmul(g: RewriteBuilder, a: Value, b: Value, e: str) -> Value:
    """Einsum(a, b, "bij,bjk->bik") => MatMul(a, b); a constant may be transposed for it, and its axes merged"""
    require(a.dtype in MATMUL_TYPES, "onnxruntime may not multiply this type")
    for x, w, swapped in ((a, b, False), (b, a, True)):
        axes = merged_axes(x, w, e, swapped=swapped)
        if axes is not None:
            return product_of_merged_axes(g, x, w, *axes)
    factors = matmul_factors(a, b, e)
    require_matmul_equivalent(*(tuple(v.shape[i] for i in perm) for v, perm in factors))
    return g.MatMul(*(v if perm == sorted(perm) else g.const(v.const.transpose(perm)) for v, perm in factors))


@rule(lambda g, a, b, e: g.Einsum(a, b, equation=e), group="simplify-einsum")
def einsum_to_gemm(g: RewriteBuilder, a: Value, b: Value, e: str) -> Value:
    """Einsum(a, b, "ij,kj->ik") => Gemm(a, b, transB=1)"""
    eq = parse_equation(e, [a.rank, b.rank])
    require(a.rank == b.rank == len(eq.result) == 2, "Gemm multiplies matrices only")
    (s, t), (m, n) = eq.terms, eq.result
    if m in t:
        a, b, s, t = b, a, t, s
    k = next((label for label in s if label not in eq.result), None)
    require({*s} == {m, k} and {*t} == {k, n}, "it is not a product")
    require(same_extent(a.shape[s.index(k)], b.shape[t.index(k)]), "one factor may be stretched")
    return Product(a, b, trans_a=s != (m, k), trans_b=t != (k, n)).build(g)


def merged_axes(x: Value, w: Value, e: str, *, swapped: bool) -> tuple[list[int], int] | None:
    """The axes of constant weights, summed axes first, and the number of summed axes; None if they are a matrix.

    The summed axes are the last axes of `x`, in this order; the other axes of the weights are the last of the result.
    """
    eq = parse_equation(e, [w.rank, x.rank] if swapped else [x.rank, w.rank])
    term, of_weights = eq.terms[::-1] if swapped else eq.terms
    summed = tuple(label for label in term if label not in eq.result)
    brought = tuple(label for label in eq.result if label not in term)
    is_product = ends_with(term, summed) and eq.result == (*term[: len(term) - len(summed)], *brought)
    is_of_own = w.is_const and not x.is_const and len(w.consumers) == 1
    if not (is_product and is_of_own and summed and brought and {*of_weights} == {*summed, *brought}):
        return None
    order = [of_weights.index(label) for label in (*summed, *brought)]
    return (order, len(summed)) if len(order) > 2 else None


def product_of_merged_axes(g: RewriteBuilder, x: Value, w: Value, order: list[int], count: int) -> Value:
    """The product of `x` with weights whose axes are merged to a matrix; the first `count` axes are summed."""
    extents = [w.static_shape[i] for i in order]
    rows, kept = prod(extents[:count]), [0] * (x.rank - count)
    require(all(map(same_extent, x.shape[x.rank - count :], extents)), "an Einsum stretches a factor where it sums")
    require(rows > 0 and prod(extents) > 0, "onnxruntime sums no numbers to anything")
    require(g.opset >= 5, "shapes are attributes of Reshape")
    matrix = g.const(w.const.transpose(order).reshape(rows, -1))
    product = g.MatMul(x if count == 1 else g.Reshape(x, [*kept, rows]), matrix)
    return product if len(order) == count + 1 else g.Reshape(product, [*kept, *extents[count:]])


def matmul_factors(a: Value, b: Value, e: str) -> list[tuple[Value, list[int]]]:
    """The operands in the order of a MatMul, each with the order of its axes there; declines other products."""
    eq = parse_equation(e, [a.rank, b.rank])
    s, t = eq.terms
    for values, terms in (((a, b), (s, t)), ((b, a), (t, s))):
        orders = orders_for_matmul(*terms, eq.result)
        if orders is None:
            continue
        perms = [[term.index(label) for label in order] for term, order in zip(terms, orders, strict=True)]
        factors = list(zip(values, perms, strict=True))
        # A constant of its own can be transposed.
        if all(perm == sorted(perm) or (v.is_const and len(v.consumers) == 1) for v, perm in factors):
            return factors
    raise MatchFailure(f"{e} is not a product that a MatMul makes")


def orders_for_matmul(left: Term, right: Term, result: Term) -> tuple[Term, Term] | None:
    """The labels of two factors as a MatMul would need them for `result`: (..., m, k) and (..., k, n)."""
    summed = tuple(label for label in left if label not in result)
    if len(summed) != 1 or summed != tuple(label for label in right if label not in result):
        return None
    n = result[-1:] if len(right) > 1 else ()
    m = result[len(result) - len(n) - 1 : len(result) - len(n)] if len(left) > 1 else ()
    batch = result[: len(result) - len(m) - len(n)]
    batches = [tuple(label for label in batch if label in term) for term in (left, right)]
    orders = (*batches[0], *m, *summed), (*batches[1], *summed, *n)
    is_product = sorted(left) == sorted(orders[0]) and sorted(right) == sorted(orders[1])
    return orders if is_product and batch in batches and all(ends_with(batch, b) for b in batches) else None


def require_matmul_equivalent(left: Shape, right: Shape) -> None:
    """Decline a MatMul of other extents than an Einsum takes, or of which onnxruntime makes something else."""
    *_, summed = left
    require(same_extent(summed, right[-2:][0]), "an Einsum stretches a factor where it sums, a MatMul does not")
    is_matrix = len(left) > 1 and len(right) > 1
    require(is_matrix or (isinstance(summed, int) and summed > 0), "onnxruntime sums no numbers to anything")
    require_ort_matmul(left, right)


def ends_with(term: Term, end: Term) -> bool:
    """Whether `term` ends with the labels of `end`."""
    return len(end) <= len(term) and term[len(term) - len(end) :] == end
