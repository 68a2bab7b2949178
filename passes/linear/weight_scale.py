"""Scales and BatchNormalization around a product, folded into its constant weights or moved to its smaller factor.

`fold-scale-into-weights`: Folding of the scale of a product with constant weights, or of its operand, into the weights.
`fold-batchnorm-into-gemm`: Folding of BatchNormalization before or behind a product with constant weights.
`move-scales`: Moving of scales from the larger factor of a product to the smaller one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from ...core import ChangeLog, Graph, MatchFailure, Op, RewriteBuilder, Value, made_from, require, rule
from ...core.ir.dtypes import FLOATS
from ...core.ir.expressions import is_known_le, prod
from ...core.ir.op import replaced
from ...core.operators.declaration import Trait
from ...core.operators.operands import full_perm
from ...core.operators.table import ops_with
from ..movement.reshapes import RESHAPE_OPS
from ..support.operand_queries import (
    Array,
    addend_along_last_axis,
    downcast_constant,
    has_one_use,
    operand,
    require_broadcastable_to,
    require_no_rounding,
    require_numpy_broadcasting,
    required_producer,
    sum_of_constants,
    unless_declined,
    varying_operand,
)
from .affine import SCALE_OPS, require_no_gelu, require_no_norm, required_factor, required_factors, scale_and_shift
from .products import PRODUCTS, weighted_product


@rule(
    lambda g, x, w, product, op: g.one_of(*SCALE_OPS)(..., g.one_of(*PRODUCTS)(x, g.const(w), ...) @ product, ...) @ op,
    lambda g, x, w, b, product, add, op: (
        g.one_of("Mul", "Div")(..., g.Add(g.MatMul(x, g.const(w)) @ product, g.const(b)) @ add, ...) @ op
    ),
    group="fold-scale-into-weights",
)
def fold_scale_into_columns(
    g: RewriteBuilder, x: Value, product: Op, op: Op, b: Value | None = None, add: Op | None = None
) -> Value:
    """(x @ w + c) * s => x @ (w * s) + c * s"""
    if b is not None:
        require_broadcastable_to(b, product.outputs[0])
        require_no_rounding(b)
    k = required_factors(op, (product if add is None else add).outputs[0])
    p = weighted_product(product)
    scaled = p.with_weights(g, x, p.weights * k).with_bias(g, None if p.bias is None else p.bias * k).build(g)
    return scaled if b is None else g.Add(scaled, downcast_constant(g, b.const.astype(np.float64) * k, b))


@rule(
    lambda g, w, product, op: g.one_of(*PRODUCTS)(g.one_of(*SCALE_OPS)(...) @ op, g.const(w), ...) @ product,
    group="fold-scale-into-weights",
)
def fold_scale_into_rows(g: RewriteBuilder, product: Op, op: Op) -> Value:
    """(x * s) @ w + c => x @ (s * w) + c, where s has a number for each row of w"""
    x = varying_operand(op)
    k, p = required_factors(op, x), weighted_product(product)
    require_no_gelu(p.a)
    require_no_norm(p.a)
    require(k.size == 1 or not p.trans_a, "it is the rows of x that are scaled, not its columns")
    return p.with_weights(g, x, p.weights * k.reshape(-1, 1)).build(g)


@rule(
    lambda g, x, w, product, bn: g.BatchNormalization(g.one_of(*PRODUCTS)(x, g.const(w), ...) @ product, ...) @ bn,
    group="fold-batchnorm-into-gemm",
)
def fold_batchnorm_into_gemm(g: RewriteBuilder, x: Value, w: Value, product: Op, bn: Op) -> Value:
    """BatchNormalization(x @ w + c) => Gemm(x, w * k, (c - mean) * k + bias), k = scale / sqrt(var + epsilon)"""
    require(x.rank == w.rank == 2, "the channels are not the columns")
    p = weighted_product(product)
    k, shift = scale_and_shift(bn, p.extents[1])
    bias = shift if p.bias is None else sum_of_constants(p.b, p.bias * k, shift)
    return p.with_weights(g, x, p.weights * k).with_bias(g, bias).build(g)


def moved(g: Any, x: Any, move: Any) -> Any:
    """The pattern of an op that reshapes or transposes `x`."""
    return g.one_of(*RESHAPE_OPS, "Transpose")(x, ...) @ move


@rule(
    lambda g, x, w, product, move, bn: (
        g.BatchNormalization(moved(g, g.MatMul(x, g.const(w)) @ product, move), ...) @ bn
    ),
    lambda g, x, w, b, product, move, bn: (
        g.BatchNormalization(moved(g, g.Add(g.MatMul(x, g.const(w)) @ product, g.const(b)), move), ...) @ bn
    ),
    group="fold-batchnorm-into-gemm",
)
def fold_batchnorm_behind_movement(
    g: RewriteBuilder, x: Value, w: Value, product: Op, move: Op, bn: Op, b: Value | None = None
) -> Value:
    """BatchNormalization(Reshape(x @ w + c)) => Reshape(x @ (w * k) + (c - mean) * k + bias), or of a Transpose"""
    p, made = weighted_product(product), product.outputs[0]
    k, shift = scale_and_shift(bn, p.extents[1])
    require(w.rank == 2, "the weights are not a matrix")
    if move.type == "Transpose":
        require(full_perm(move.attr("perm"), made.rank)[1:2] == [made.rank - 1], "the channels are not the columns")
    else:
        rows = move.outputs[0].shape
        require(len(rows) == 2 and rows[1] == k.size, "the channels are not the columns")
    bias = shift if b is None else sum_of_constants(p.b, addend_along_last_axis(b, made) * k, shift)
    folded = g.Add(p.with_weights(g, x, p.weights * k).build(g), downcast_constant(g, bias, w))
    return getattr(g, move.type)(folded, *move.inputs[1:], **move.attrs)


@rule(
    lambda g, x, w, product, bn: g.one_of(*PRODUCTS)(g.BatchNormalization(x, ...) @ bn, g.const(w), ...) @ product,
    group="fold-batchnorm-into-gemm",
)
def fold_batchnorm_before_gemm(g: RewriteBuilder, x: Value, w: Value, product: Op, bn: Op) -> Value:
    """BatchNormalization(x) @ w + c => Gemm(x, k * w, (bias - mean * k) @ w + c), k = scale / sqrt(var + epsilon)"""
    p = weighted_product(product)
    require(x.rank == w.rank == 2 and not p.trans_a, "the sums are not over the channels")
    k, shift = scale_and_shift(bn, p.extents[0])
    bias = shift @ p.weights
    bias = bias if p.bias is None else sum_of_constants(p.b, bias, p.bias)
    return p.with_weights(g, x, p.weights * k.reshape(-1, 1)).with_bias(g, bias).build(g)


DATA_MOVEMENT_OPS = ops_with(Trait.PERMUTES)
MAX_OPS = 32  # ops looked at

Path = tuple[tuple[Op, Value], ...]
"""Ops from the product with constant weights to the scaled value, each with its output on the way."""


class FoldScale(Struct, frozen=True):
    """s * f(x @ w + b) => f(x @ (s * w) + s * b), where f moves, adds constants or multiplies by another matrix."""

    name: str = "fold-scale"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Visit each Mul and Div by a number. O(ops)."""
        scales = [op for g in graph.with_subgraphs() for op in sorted(g.ops("Mul", "Div"), key=lambda op: op.order_key)]
        return sum(self._fold(op, change_log) for op in scales)

    def _fold(self, op: Op, change_log: ChangeLog) -> bool:
        if op not in op.graph or not change_log.may_change(self.name, op.outputs[0].name, exact=False):
            return False
        g = RewriteBuilder(op.graph, op)
        try:
            x, s = scaled_operand(op)
            path = find_path(x, op)
            with np.errstate(all="ignore"):  # the numbers are examined where they are written
                result, others = rebuild_path(g, path, s)
            ops = (op, *(step for step, _ in path))
            change_log.require_change(self.name, op.outputs[0].name, ops, exact=False)
        except MatchFailure:
            op.graph.discard(g.added_ops[::-1])
            for v in g.constants:
                op.graph.drop_initializer(v)
            return False
        for made in g.added_ops:
            made_from(made, self.name, ops)
        for new, old in (*others, (result, op.outputs[0])):
            op.graph.take_over(new, old)
        op.graph.discard((op,))
        return True


def scaled_operand(op: Op) -> tuple[Value, float]:
    """The scaled operand of a Mul or Div and the scale; declines if that is not one number, or adds dims."""
    require(not op.domain, f"{op.label} is not a standard operator")
    require_numpy_broadcasting(op.version)
    x = varying_operand(op)
    return x, required_factor(op, x)


def find_path(value: Value, reader: Op) -> Path:
    """The way to `value`, read by `reader` alone, from a product with constant weights; declines if there is none."""
    open_ends: list[Path] = [((reader, value),)]  # from the end to the start
    for _ in range(MAX_OPS):
        if not open_ends:
            break
        *_, (user, v) = steps = open_ends.pop()
        op = user.graph.producer(v)
        if op is None or op.domain or not has_one_use(v):
            continue
        way = (*steps[:-1], (op, v))
        w = op.input(1)
        if op.type in {"MatMul", "Gemm"} and w is not None and w.is_const and w.rank == 2:
            return way[::-1]
        open_ends += [(*way, (op, u)) for u in scalable_inputs(op)]
    raise MatchFailure("no constant weights come before it")


def scalable_inputs(op: Op) -> list[Value]:
    """The inputs with which the output of `op` is scaled; the first is tried last."""
    inputs = [v for v in op.inputs if v is not None]
    if op.type in DATA_MOVEMENT_OPS | {"Split"}:
        return inputs[:1]
    if op.type == "Add":
        return [v for v in inputs if not v.is_const] if any(v.is_const for v in inputs) else []
    return inputs[::-1] if op.type == "MatMul" else []


def rebuild_path(g: RewriteBuilder, path: Path, s: float) -> tuple[Value, list[tuple[Value, Value]]]:
    """The ops of `path` again, all scaled; with their other results, and the values that these replace."""
    (first, old), *rest = path
    p = weighted_product(first)
    factors, bias = column_factors(path, p.extents[1], s), p.bias
    new = p.with_weights(g, p.a, p.weights * factors).with_bias(g, None if bias is None else bias * factors).build(g)
    beside: list[tuple[Value, Value]] = []
    for op, out in rest:
        inputs = replaced(op.inputs, old, new)
        if op.type == "Add":
            inputs = tuple(scaled_constant(g, v, op, factors) if v is not None and v.is_const else v for v in inputs)
        made: Value | tuple[Value, ...] = getattr(g, op.type)(*inputs, outputs=len(op.outputs), **op.attrs)
        parts: tuple[Value, ...] = made if isinstance(made, tuple) else (made,)
        beside += [(part, old) for part, old in zip(parts, op.outputs, strict=True) if old is not out]
        new = parts[op.outputs.index(out)]
        factors = np.array([s]) if op.type == "Split" else factors
        old = out
    return new, beside


def column_factors(path: Path, columns: int, s: float) -> Array:
    """The factor of each column of the weights: `s`, or 1 where a Split leads it elsewhere."""
    splits = [(i, op, out) for i, (op, out) in enumerate(path) if op.type == "Split"]
    if not splits:
        return np.array([s])
    (at, op, out), *more = splits
    steps = path[1:at]
    is_direct = not more and all(step.type in {"Add", "Reshape"} and v.shape[-1:] == (columns,) for step, v in steps)
    require(is_direct, "the Split is of something else than the columns of the product")
    require(op.attr("axis", 0) in {out.rank - 1, -1}, "the Split is along another axis than the columns")
    require(all(v.name for v in op.outputs), "the Split leaves a part out")
    extents = [v.static_shape[-1] for v in op.outputs]
    require(sum(extents) == columns, "the parts do not make up the columns")
    index = op.outputs.index(out)
    factors = np.ones(columns)
    factors[sum(extents[:index]) : sum(extents[: index + 1])] = s
    return factors


def scaled_constant(g: RewriteBuilder, c: Value, add: Op, factors: Array) -> Value:
    """The scaled constant of an Add on the path; it may not stretch the columns of a Split."""
    require(factors.size == 1 or c.rank <= add.outputs[0].rank, "it adds dims")
    require_no_rounding(c)
    return downcast_constant(g, c.const.astype(np.float64) * factors, c)


FOLD_SCALE = FoldScale()


MOVEMENTS = DATA_MOVEMENT_OPS | {"Expand"}
MAX_DEPTH = 8  # ops between a scale and a product


class ScaledFactor(NamedTuple):
    """A factor that is `scale * x`, moved by `movements`, the last one first."""

    x: Value
    scale: float
    movements: tuple[Op, ...]

    def rebuild(self, g: RewriteBuilder, x: Value) -> Value:
        """Build the factor of `x` in place of `scale * x`."""
        for op in self.movements[::-1]:
            x = getattr(g, op.type)(x, *op.inputs[1:], **op.attrs)
        return x


@rule(lambda g, a, b: g.MatMul(a, b), group="move-scales")
def move_scale_to_first_factor(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """MatMul(a, b * s) => MatMul(a * s, b), and MatMul(a * r, b * s) => MatMul(a * (r * s), b), of a smaller a"""
    second = scaled_factor(g, b)
    # The product of numbers that are split between two factors lest one overflows is no larger than each.
    require(abs(second.scale) <= 1 and second.x.dtype in FLOATS, "the first factor may overflow")
    require(not a.is_const, "the first factor is constant")
    first = unless_declined(scaled_factor, g, a)
    if first is None:
        require(has_fewer_elements(a, second.x), "the first factor may be the larger one")
        first = ScaledFactor(a, 1.0, ())
    require(abs(first.scale) <= 1, "the first factor may overflow")
    scaled = g.Mul(first.x, downcast_constant(g, np.array(first.scale * second.scale), a))
    return g.MatMul(first.rebuild(g, scaled), second.rebuild(g, second.x))


def scaled_factor(g: RewriteBuilder, v: Value) -> ScaledFactor:
    """Read a value that nothing else reads as a scaled one, which may have been moved; declines others."""
    movements: list[Op] = []
    while len(movements) < MAX_DEPTH:
        op = required_producer(v, "Div", "Mul", *MOVEMENTS)
        require(op.graph is g.graph and has_one_use(v), "an intermediate value has other consumers")
        if op.type not in MOVEMENTS:
            x, scale = scaled_operand(op)
            return ScaledFactor(x, scale, tuple(movements))
        movements.append(op)
        v = operand(op)
    raise MatchFailure("no scale is near")


def has_fewer_elements(a: Value, b: Value) -> bool:
    """Whether `a` is known to have no more elements than `b`, and fewer for some sizes; declines unknown ranks."""
    dims = [[d for d in v.shape if d is not None] for v in (a, b)]
    if [len(known) for known in dims] != [a.rank, b.rank]:
        return False
    first, second = map(prod, dims)
    return first != second and is_known_le(first, second)
