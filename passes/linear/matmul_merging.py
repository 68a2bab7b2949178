"""Merging of consecutive, parallel and added products with constant weights.

`merge-matmuls`: Merging of products with constant weights that are consecutive or added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from ...core import ChangeLog, Graph, MatchFailure, Op, RewriteBuilder, Value, made_from, require, rule
from ...core.ir.cost_model import CostModel, format_bytes, format_seconds
from ...core.ir.dtypes import FLOATS
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ..folding.folding_limits import Work, spend
from ..support.operand_queries import (
    downcast_constant,
    operand,
    require_broadcastable_to,
    same_shape,
    values_along_axis,
)
from .weighted_products import PRODUCTS, Array, WeightedProduct, gemm_attributes, product_of, rebuild_product

BOUNDED_OPS = ops_with(Trait.BOUNDED)
NORMALIZATION_OPS = ops_with(Trait.NORMALIZATION)
FINITENESS_PRESERVING_OPS = ops_with(Trait.KEEPS_FINITE)
ATTENTION_OPS = frozenset({"Attention", "GroupQueryAttention", "MultiHeadAttention"})
# Heads are split off, scaled, rotated, and put behind those of the past.
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
def merge_products(g: RewriteBuilder, x: Value, first: Op, second: Op) -> Value:
    """(x @ v + b) @ w + c => x @ (v @ w) + (b @ w + c)"""
    p, q = product_of(first), product_of(second)
    require(not second.attr("transA", 0), "the first product is transposed")
    require_no_growth(p, q)
    require_finite(x)
    spend_on_product(g, p, q)
    bias, inner, weights = q.bias, p.bias, q.weights
    if inner is not None:
        moved = np.broadcast_to(inner, p.extents[1:]) @ weights
        bias = moved if bias is None else moved + bias
    return rebuild_product(g, p, x, p.weights @ weights, bias)


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
    p, q = product_of(first), product_of(second)
    require_no_growth(p, q)
    require_finite(x)
    between = first.outputs[0]
    require_broadcastable_to(b, between)
    spend_on_product(g, p, q)
    weights = q.weights
    moved = np.broadcast_to(values_along_axis(b, between.rank, -1), p.extents[1:]) @ weights
    return g.Add(g.MatMul(x, downcast_constant(g, p.weights @ weights, v)), downcast_constant(g, moved, w))


@rule(
    lambda g, x, v, w, first, second: g.one_of("Add", "Sum")(
        g.MatMul(x, g.const(v)) @ first, g.MatMul(x, g.const(w)) @ second
    ),
    group="merge-matmuls",
)
def merge_products_of_same_operand(g: RewriteBuilder, x: Value, v: Value, w: Value, first: Op, second: Op) -> Value:
    """(x @ v) + (x @ w) => x @ (v + w)"""
    p, q = product_of(first), product_of(second)
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


def require_no_growth(first: WeightedProduct, second: WeightedProduct) -> None:
    """One product may neither hold more numbers nor multiply more often than the two."""
    require(first.w.rank == second.w.rank == 2, "the weights are not matrices")
    (rows, inner), (same, columns) = first.extents, second.extents
    require(inner == same, "the products do not fit")
    require(rows * columns <= rows * inner + inner * columns, "the merged weights are larger")


def spend_on_product(g: RewriteBuilder, first: WeightedProduct, second: WeightedProduct) -> None:
    """Decline where the products of weights of this run would take too long."""
    spend(g.graph, Work(multiplications=prod(first.extents) * second.extents[1]))


SiblingKey = tuple[object, ...]
"""The properties that siblings share: operand, operator, attributes, type, and the rows of the weights."""


@dataclass(frozen=True, slots=True)
class ProductBranch:
    """A product, its bias, and the op whose result it is for: the product itself, or an Add behind it."""

    product: WeightedProduct
    bias: Value | None
    last_op: Op

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops that would go."""
        return (self.last_op,) if self.last_op is self.product.op else (self.last_op, self.product.op)

    @property
    def bias_row(self) -> Array:
        """The bias, one number for each column."""
        columns = self.product.extents[1:]
        if self.bias is None:
            return np.zeros(columns, self.product.w.const.dtype)
        return np.broadcast_to(self.bias.const.reshape(-1), columns)


@dataclass(frozen=True, slots=True)
class MergeParallelMatmuls:
    """x @ u + a, x @ v + b, ... => Split(x @ [u v ...] + [a b ...]), where the ops saved take longer than the Split.

    The projections of an attention stay apart: what is faster alone is not in front of it, and an Attention reads them
    as they are.
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
        ops, place = [op for b in branches for op in b.ops], branches[0].last_op.outputs[0].name
        try:
            require_profit(branches, g.context.costs)
        except MatchFailure as why:
            change_log.record_decline(self.name, place, str(why))
            return False
        if not change_log.request_change(self.name, place, ops, exact=False):
            return False
        build = RewriteBuilder(g, branches[0].product.op)
        for b, part in zip(branches, split_product(build, branches), strict=True):
            g.take_over(part, b.last_op.outputs[0])
        for op in build.added_ops:
            made_from(op, self.name, ops)
        g.discard(ops)
        return True


def branch_of(op: Op) -> ProductBranch:
    """Read a product and its addend; declines one that has no constant weights of its own."""
    p = product_of(op)
    require(op.domain == "" and p.w.rank == 2 and 0 not in p.extents, "the weights are not a matrix")
    require(not p.x.is_const and any(v.consumers or op.graph.is_output(v) for v in op.outputs), "it will go anyway")
    if op.type == "Gemm":
        require(p.c is None or is_row(p.c, 2, p.extents[1]), "its bias is not a constant row")
        return ProductBranch(p, p.c, op)
    out, rank = op.outputs[0], p.x.rank
    bias, readers = None, list(out.consumers)
    is_private = len(readers) == 1 and not op.graph.is_output(out) and out not in op.graph.pinned
    end = readers[0] if is_private else None
    if end is not None and end.type == "Add" and not end.domain and end.graph is op.graph:
        bias = next((v for v in end.inputs if v is not None and v is not out and is_row(v, rank, p.extents[1])), None)
    return ProductBranch(p, bias, op if bias is None or end is None else end)


def sibling_key(p: WeightedProduct) -> SiblingKey:
    """The properties that all members of a family share."""
    attrs = tuple(gemm_attributes(p.op).items()) if p.op.type == "Gemm" else ()
    is_either = p.x.rank == 2 and not attrs  # then a MatMul and a Gemm are the same
    return (p.x, is_either or p.op.type, attrs, p.w.dtype, p.extents[0])


def ops_saved(branches: list[ProductBranch]) -> int:
    """The number of ops less the ops of the replacement: a product, a Split and, for biases of MatMuls, an Add."""
    adds = not gemms_of(branches) and any(b.last_op is not b.product.op for b in branches)
    return sum(len(b.ops) for b in branches) - 2 - adds


def require_profit(branches: list[ProductBranch], costs: CostModel) -> None:
    """Decline projections of an attention, and products whose Split takes longer than the ops that it saves."""
    require(sum(map(feeds_attention, branches)) < 2, "an attention reads the products, and takes them apart")
    moved = sum(costs.nbytes(b.product.op.outputs[0]) for b in branches)
    saved = ops_saved(branches) + 1  # the Split itself is on the other side
    cost, gain = costs.splitting_seconds(moved, len(branches)), saved * costs.op_seconds
    split = f"a Split into {len(branches)} moves {format_bytes(moved)} in {format_seconds(cost)}"
    require(cost <= gain, f"{split} to save {saved} ops, which take {format_seconds(gain)}")


def feeds_attention(branch: ProductBranch) -> bool:
    """Whether an Attention reads a result, or a product of two computed values: scores, or their sum. O(1)."""
    queue = [branch.last_op.outputs[0]]
    for seen, v in enumerate(queue):
        if seen == MAX_OPS:
            return False
        for op in v.consumers:
            if op.type in ATTENTION_OPS or (op.type == "MatMul" and not any(i.is_const for i in op.inputs if i)):
                return True
            if op.type in PASSED_BEFORE_ATTENTION:
                queue += op.outputs
    return False


def split_product(g: RewriteBuilder, branches: list[ProductBranch]) -> Iterable[Value]:
    """One product with all weights side by side, split into the outputs of the branches."""
    p = branches[0].product
    turned = p.transposed
    weights = g.const(np.concatenate([b.product.w.const for b in branches], axis=0 if turned else 1))
    biases = [b.bias_row for b in branches] if any(b.bias is not None for b in branches) else []
    bias = g.const(np.concatenate(biases)) if biases else None
    if gemms := gemms_of(branches):
        merged = g.Gemm(p.x, weights, bias, **gemms[0].attrs)
    else:
        merged = g.MatMul(p.x, weights)
        merged = merged if bias is None else g.Add(merged, bias)
    columns = [b.product.extents[1] for b in branches]
    return g.Split(merged, outputs=len(branches), axis=p.x.rank - 1, split=columns)


def gemms_of(branches: list[ProductBranch]) -> list[Op]:
    """The Gemms among the products."""
    return [b.product.op for b in branches if b.product.op.type == "Gemm"]


def is_row(c: Value, rank: int, columns: int) -> bool:
    """Whether `c` is a constant that adds the same row to all, and no dims. Does not read it."""
    dims = c.known_shape if c.is_const else None
    if dims is None or len(dims) > rank:
        return False
    return dims == () or (dims[-1] in {1, columns} and all(d == 1 for d in dims[:-1]))


MERGE_PARALLEL_MATMULS = MergeParallelMatmuls()
