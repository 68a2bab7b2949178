"""Merging of consecutive, parallel and added products with constant weights.

`merge-matmuls`: Merging of products with constant weights that are consecutive or added.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...core import ChangeLog, Graph, MatchFailure, Op, RewriteBuilder, Value, made_from, require, rule
from ...core.ir.cost_model import CostModel, format_bytes, format_seconds
from ...core.ir.dtypes import FLOATS
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ..folding.folding_limits import Work, spend
from ..support.operand_queries import (
    Array,
    addend_along_last_axis,
    downcast_constant,
    has_n_consumers,
    operand,
    same_shape,
    sum_of_constants,
)
from .products import PRODUCTS, Product, weighted_product

BOUNDED_OPS = ops_with(Trait.BOUNDED)
NORMALIZATION_OPS = ops_with(Trait.NORMALIZATION)
FINITENESS_PRESERVING_OPS = ops_with(Trait.KEEPS_FINITE)
ATTENTION_OPS = frozenset({"Attention", "GroupQueryAttention", "MultiHeadAttention"})
# Heads are split off, scaled, rotated, and put behind the heads of the past.
PASSED_BEFORE_ATTENTION = ops_with(Trait.MOVES_DATA) | {"Add", "Cast", "Concat", "Div", "Mul", "Neg", "RotaryEmbedding"}
MAX_OPS = 32  # ops looked at
MAX_CONSTANT_ELEMENTS = 1 << 16  # elements of a constant that is read for this


def is_finite(value: Value) -> bool:
    """Whether `value` can be seen to hold no infinity, even where an input of the model does. O(1)."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        v = stack.pop()
        if v in seen or (v.known_dtype and v.known_dtype not in FLOATS):
            continue
        seen.add(v)
        if v.is_const:
            if prod(v.static_shape) > MAX_CONSTANT_ELEMENTS or not np.isfinite(v.const).all():
                return False
            continue
        op = v.producer
        if op is None or op.domain or len(seen) > MAX_OPS:
            return False
        if op.type not in BOUNDED_OPS:
            if op.type not in FINITENESS_PRESERVING_OPS | NORMALIZATION_OPS:
                return False
            stack += [v for v in op.inputs[op.type in NORMALIZATION_OPS :] if v is not None]
    return True


@rule(
    lambda g, x, v, w, first, second, b=None, c=None: (
        g.one_of(*PRODUCTS)(g.one_of(*PRODUCTS)(x, g.const(v), b) @ first, g.const(w), c) @ second
    ),
    group="merge-matmuls",
)
def merge_products(g: RewriteBuilder, x: Value, w: Value, first: Op, second: Op) -> Value:
    """(x @ v + b) @ w + c => x @ (v @ w) + (b @ w + c)"""
    p, q = weighted_product(first), weighted_product(second)
    require(not q.trans_a, "the first product is transposed")
    require_no_growth(p, q)
    require_finite(x)
    spend_on_product(g, p, q)
    bias, inner, weights = q.bias, p.bias, q.weights
    if inner is not None:
        moved = np.broadcast_to(inner, p.extents[1:]) @ weights
        bias = moved if bias is None else sum_of_constants(w, moved, bias)
    return p.with_weights(g, x, p.weights @ weights).with_bias(g, bias).build(g)


@rule(
    lambda g, x, v, b, w, first, second: (
        g.MatMul(g.Add(g.MatMul(x, g.const(v)) @ first, g.const(b)), g.const(w)) @ second
    ),
    group="merge-matmuls",
)
def merge_products_around_bias(
    g: RewriteBuilder, x: Value, v: Value, b: Value, w: Value, first: Op, second: Op
) -> Value:
    """(x @ v + b) @ w => x @ (v @ w) + b @ w"""
    p, q = weighted_product(first), weighted_product(second)
    require_no_growth(p, q)
    require_finite(x)
    row = addend_along_last_axis(b, first.outputs[0])
    spend_on_product(g, p, q)
    weights = q.weights
    moved = np.broadcast_to(row, p.extents[1:]) @ weights
    return g.Add(g.MatMul(x, downcast_constant(g, p.weights @ weights, v)), downcast_constant(g, moved, w))


@rule(
    lambda g, x, v, w, first, second: g.one_of("Add", "Sum")(
        g.MatMul(x, g.const(v)) @ first, g.MatMul(x, g.const(w)) @ second
    ),
    group="merge-matmuls",
)
def merge_products_of_same_operand(g: RewriteBuilder, x: Value, v: Value, w: Value, first: Op, second: Op) -> Value:
    """(x @ v) + (x @ w) => x @ (v + w)"""
    p, q = weighted_product(first), weighted_product(second)
    require(v.static_shape == w.static_shape, "the weights differ in shape")
    require_finite(x)
    return g.MatMul(x, downcast_constant(g, p.weights + q.weights, v))


@rule(lambda g, w, p, q: g.Add(g.MatMul(..., w, ...) @ p, g.MatMul(..., w, ...) @ q), group="merge-matmuls")
def factor_out_operand(g: RewriteBuilder, w: Value, p: Op, q: Op) -> Value:
    """(x @ w) + (y @ w) => (x + y) @ w, (w @ x) + (w @ y) => w @ (x + y)"""
    side = 1 if p.inputs[1] is w is q.inputs[1] else 0
    require(p.inputs[side] is w is q.inputs[side], "the common factor is the left one of one product only")
    x, y = operand(p, 1 - side), operand(q, 1 - side)
    require(x is not y and not (x.is_const or y.is_const), "the sum is no simpler")
    require(same_shape(x.shape, y.shape), "the factors differ in shape")
    require(w.is_const or is_finite(w), f"{w.name} may hold infinities")
    return g.MatMul(g.Add(x, y), w) if side else g.MatMul(w, g.Add(x, y))


def require_finite(x: Value) -> None:
    """Of infinities, two products may make NaN where one of the merged weights makes an infinity."""
    require(is_finite(x), f"{x.name} may hold infinities")


def require_no_growth(first: Product, second: Product) -> None:
    """One product may neither hold more numbers nor multiply more often than the two."""
    require(first.b.rank == second.b.rank == 2, "the weights are not matrices")
    (rows, inner), (same, columns) = first.extents, second.extents
    require(inner == same, "the products do not fit")
    require(rows * columns <= rows * inner + inner * columns, "the merged weights are larger")


def spend_on_product(g: RewriteBuilder, first: Product, second: Product) -> None:
    """Decline where the products of weights of this run would take too long."""
    spend(g.graph, Work(multiplications=prod(first.extents) * second.extents[1]))


SiblingKey = tuple[object, ...]
"""The properties that siblings share: operand, operator, attributes, type, and the rows of the weights."""


class ProductBranch(Struct, frozen=True):
    """A product, with the constant of an Add behind it as its bias, and the ops that would go, the last one first."""

    product: Product
    ops: tuple[Op, ...]

    @property
    def bias_row(self) -> Array:
        """The bias, one number for each column."""
        c, columns = self.product.c, self.product.extents[1:]
        if c is None:
            return np.zeros(columns, self.product.b.const.dtype)
        return np.broadcast_to(c.const.reshape(-1), columns)


class MergeParallelMatmuls(Struct, frozen=True):
    """x @ u + a, x @ v + b, ... => Split(x @ [u v ...] + [a b ...]), where the ops saved take longer than the Split.

    The projections of an attention stay apart: in front of it, a merged product gains nothing, and an Attention reads
    each projection.
    """

    name: str = "merge-parallel-matmuls"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Visit each product once. O(ops)."""
        return sum(self._merge_in(g, change_log) for g in tuple(graph.with_subgraphs()))

    def _merge_in(self, g: Graph, change_log: ChangeLog) -> int:
        families: dict[SiblingKey, list[ProductBranch]] = {}
        for op in sorted(g.ops("MatMul", "Gemm"), key=lambda op: op.order_key):
            try:
                branch = branch_of(op)
                families.setdefault(sibling_key(branch.product), []).append(branch)
            except MatchFailure:
                continue
        return sum(self._merge(g, family, change_log) for family in families.values() if ops_saved(family) > 0)

    def _merge(self, g: Graph, branches: list[ProductBranch], change_log: ChangeLog) -> bool:
        ops, place = [op for b in branches for op in b.ops], branches[0].ops[0].outputs[0].name
        try:
            require_profit(branches, g.context.costs)
        except MatchFailure as why:
            change_log.record_decline(self.name, place, str(why))
            return False
        if not change_log.request_change(self.name, place, ops, exact=False):
            return False
        build = RewriteBuilder(g, branches[0].ops[-1])
        for b, part in zip(branches, split_product(build, branches), strict=True):
            g.take_over(part, b.ops[0].outputs[0])
        for op in build.added_ops:
            made_from(op, self.name, ops)
        g.discard(ops)
        return True


def branch_of(op: Op) -> ProductBranch:
    """Read a product and its addend; declines one that has no constant weights of its own."""
    p = weighted_product(op)
    columns = p.extents[1]
    require(op.domain == "" and p.b.rank == 2 and 0 not in p.extents, "the weights are not a matrix")
    require(not p.a.is_const and any(v.consumers or op.graph.is_output(v) for v in op.outputs), "it will go anyway")
    if op.type == "Gemm":
        require(p.c is None or is_row(p.c, 2, columns), "its bias is not a constant row")
        return ProductBranch(p, (op,))
    out = op.outputs[0]
    end = next(iter(out.consumers)) if has_n_consumers(out) else None
    if end is not None and end.type == "Add" and not end.domain and end.graph is op.graph:
        bias = next((v for v in end.inputs if v is not None and v is not out and is_row(v, p.a.rank, columns)), None)
        if bias is not None:
            return ProductBranch(replace(p, c=bias), (end, op))
    return ProductBranch(p, (op,))


def sibling_key(p: Product) -> SiblingKey:
    """The properties that all members of a family share."""
    attrs = tuple(p.attrs.items())
    is_either = p.a.rank == 2 and not attrs  # then a MatMul and a Gemm are the same
    return (p.a, is_either or p.kind, attrs, p.b.dtype, p.extents[0])


def ops_saved(branches: list[ProductBranch]) -> int:
    """The number of ops less the ops of the replacement: a product, a Split and, for biases of MatMuls, an Add."""
    adds = not has_gemm(branches) and any(len(b.ops) > 1 for b in branches)
    return sum(len(b.ops) for b in branches) - 2 - adds


def require_profit(branches: list[ProductBranch], costs: CostModel) -> None:
    """Decline projections of an attention, and products whose Split takes longer than the ops that it saves."""
    require(sum(map(feeds_attention, branches)) < 2, "an attention reads the products, and takes them apart")
    moved = sum(costs.nbytes(b.ops[-1].outputs[0]) for b in branches)
    saved = ops_saved(branches) + 1  # the Split itself is on the other side
    cost, gain = costs.splitting_seconds(moved, len(branches)), saved * costs.op_seconds
    split = f"a Split into {len(branches)} moves {format_bytes(moved)} in {format_seconds(cost)}"
    require(cost <= gain, f"{split} to save {saved} ops, which take {format_seconds(gain)}")


def feeds_attention(branch: ProductBranch) -> bool:
    """Whether an Attention reads a result, or a product of two computed values: scores, or their sum. O(1)."""
    queue = [branch.ops[0].outputs[0]]
    for seen, v in enumerate(queue):
        if seen == MAX_OPS:
            return False
        for op in v.consumers:
            if op.type in ATTENTION_OPS or (
                op.type == "MatMul" and not any(i is not None and i.is_const for i in op.inputs)
            ):
                return True
            if op.type in PASSED_BEFORE_ATTENTION:
                queue += op.outputs
    return False


def split_product(g: RewriteBuilder, branches: list[ProductBranch]) -> Iterable[Value]:
    """One product with all weights side by side, split into the outputs of the branches."""
    p = branches[0].product
    weights = g.const(np.concatenate([b.product.b.const for b in branches], axis=0 if p.trans_b else 1))
    has_bias = any(b.product.c is not None for b in branches)
    bias = g.const(np.concatenate([b.bias_row for b in branches])) if has_bias else None
    if has_gemm(branches):
        merged = replace(p, b=weights, c=bias, kind="Gemm").build(g)
    else:
        merged = g.MatMul(p.a, weights) if bias is None else g.Add(g.MatMul(p.a, weights), bias)
    columns = [b.product.extents[1] for b in branches]
    return g.Split(merged, outputs=len(branches), axis=p.a.rank - 1, split=columns)


def has_gemm(branches: list[ProductBranch]) -> bool:
    """Whether one of the products is a Gemm, which takes their biases."""
    return any(b.product.kind == "Gemm" for b in branches)


def is_row(c: Value, rank: int, columns: int) -> bool:
    """Whether `c` is a constant that adds the same row to all, and no dims. Does not read it."""
    dims = c.known_shape if c.is_const else None
    if dims is None or len(dims) > rank:
        return False
    return dims == () or (dims[-1] in {1, columns} and all(d == 1 for d in dims[:-1]))


MERGE_PARALLEL_MATMULS = MergeParallelMatmuls()
