"""Merging, sinking and removal of reshapes.

`merge-reshapes`: Merging of Reshape, Flatten, Squeeze and Unsqueeze.
`transpose-to-reshape`: Conversion of Transposes that only move axes of extent 1 to Reshapes.
`transpose-without-reshapes`: Removal of reshapes that merge leading dims before a Transpose of the others and split
them after it.
`sink-reshapes`: Sinking of reshapes through elementwise ops, and their cancellation.
`multiply-without-reshapes`: Removal of reshapes around matrix products.
"""

from __future__ import annotations

from itertools import dropwhile, pairwise
from typing import Any

from ...core import EXACT, MatchFailure, Op, RewriteBuilder, Value, by_dtype, require, rule, same_extent
from ...core.ir.dtypes import INTEGERS
from ...core.ir.expressions import Dim, Shape, as_integers, prod
from ...core.operators.declaration import Trait
from ...core.operators.operands import full_perm, normalized_axis
from ...core.operators.table import ops_with
from ..support.operand_queries import (
    BROADCASTING_OPSET,
    VARIADIC_BROADCASTING_OPSET,
    constant_numbers,
    has_n_consumers,
    has_one_use,
    inferred_shape,
    known,
    normalized_axes,
    operand,
    require_numpy_broadcasting,
    required_producer,
    same_shape,
    swap_of_last_two,
    unless_declined,
)

RESHAPE_OPS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
SQUEEZE_OPS = frozenset({"Squeeze", "Unsqueeze"})
INFERRED = -1  # the extent that the number of elements leaves, as in the shape of a Reshape


def reshape_target(x: Value, made: Shape, *replaced: Op) -> list[int]:
    """The constant with which one Reshape makes the shape `made` of `x`; declines where it cannot be written."""
    own = x.known_shape or ()
    target = [_target_dim(d, own[i] if i < len(own) else None) for i, d in enumerate(made)]
    require(target.count(INFERRED) <= 1, "more than one extent is unknown")
    refused = {d for op in replaced for d in _copied_beside_inferred(op)}
    copied = [d for d, n in zip(made, target, strict=True) if n == 0]
    # A -1 beside an extent of 0 fails in onnxruntime.
    require(INFERRED not in target or refused.issuperset(copied), "an extent next to the unknown one may be 0")
    return target


def _target_dim(wanted: Dim, own: Dim) -> int:
    if isinstance(wanted, int) and wanted > 0:
        return wanted
    return 0 if same_extent(wanted, own) else INFERRED


def _copied_beside_inferred(op: Op) -> list[Dim]:
    """The extents that a Reshape copies while another one is open, so that it fails where they are 0."""
    is_copying = op.type == "Reshape" and not op.attr("allowzero", 0)
    target = unless_declined(constant_numbers, op, "shape") if is_copying else None
    if target is None or INFERRED not in target:
        return []
    return [d for d, n in zip(operand(op).known_shape or (), target, strict=False) if n == 0]


def squeezed_axes(op: Op, x: Value) -> list[int]:
    """The axes of `x` that a Squeeze takes away."""
    if axes := constant_numbers(op):  # onnxruntime takes an empty list as none given
        return normalized_axes(axes, x.rank)
    return [i for i, n in enumerate(x.static_shape) if n == 1]


def map_axes(op: Op, axes: list[int | None]) -> list[int | None]:
    """The axes after a Squeeze or Unsqueeze, in terms of those before; None for a new one."""
    if op.type == "Squeeze":
        gone = squeezed_axes(op, operand(op))
        return [a for i, a in enumerate(axes) if i not in gone]
    added = known(constant_numbers(op), "the axes are empty")
    rank = len(axes) + len(added)
    new, old = normalized_axes(added, rank), iter(axes)
    return [None if i in new else next(old) for i in range(rank)]


def reshape_of(g: Any, x: Any, op: Any) -> Any:
    """The pattern of an op that gives `x` another shape."""
    return g.one_of(*RESHAPE_OPS)(x, ...) @ op


@rule(
    lambda g, x, inner, outer: g.one_of(*RESHAPE_OPS)(reshape_of(g, x, inner), ...) @ outer,
    allow_other_uses=True,
    contract=EXACT,
    group="merge-reshapes",
)
def merge_reshapes(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """Reshape(Reshape(x, s), t) => Reshape(x, t), or x; so any two of Reshape, Flatten, Squeeze, Unsqueeze"""
    made = inferred_shape(outer)
    if same_shape(made, x.known_shape or ()):
        return x
    if (done := build_squeeze_or_unsqueeze(g, x, inner, outer)) is not None:
        return done
    if outer.type == "Flatten" and inner.type != "Reshape":
        return g.Flatten(x, axis=flatten_axis(x.shape, made))
    fixed = as_integers(made)
    if fixed is None or 0 not in fixed:
        return g.Reshape(x, reshape_target(x, made, inner, outer))
    target = unless_declined(reshape_target, x, made, inner, outer)
    return g.Reshape(x, fixed if target is None else target, allowzero=1 if target is None else None)


@rule(lambda g, x, p: g.Transpose(x, perm=p), contract=EXACT, group="transpose-to-reshape")
def transpose_to_reshape(g: RewriteBuilder, x: Value, p: list[int] | None) -> Value:
    """Transpose(x, p) => Reshape(x), where all that change places are of extent 1"""
    shape = x.shape
    perm = full_perm(p, len(shape))
    order = [i for i in perm if shape[i] != 1]
    require(all(i < j for i, j in pairwise(order)), "the permutation moves elements")
    made = tuple(shape[i] for i in perm)
    return x if same_shape(made, shape) else g.Reshape(x, shape=reshape_target(x, made))


def flatten_axis(shape: Shape, made: Shape) -> int:
    """The axis of a Flatten of `shape` to `made`."""
    dims = [d for d in shape if d is not None]
    require(len(dims) == len(shape), "an extent is unknown")
    for axis in range(len(dims) + 1):
        if same_shape((prod(dims[:axis]), prod(dims[axis:])), made):
            return axis
    raise MatchFailure("Flatten splits the dims elsewhere")


def build_squeeze_or_unsqueeze(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value | None:
    """Build one Squeeze or Unsqueeze of `x` for two of them, or `x`; None where both are needed, and for other ops."""
    if not {inner.type, outer.type} <= SQUEEZE_OPS:
        return None
    shape = x.shape
    axes = map_axes(outer, map_axes(inner, list(range(len(shape)))))
    left = [a for a in axes if a is not None]
    behind = [i for i in left if shape[i] != 1]  # ones may change places
    gone = [(sum(j < i for j in behind), i) for i in range(len(shape)) if i not in left]
    new: list[tuple[int, int]] = []
    before = 0
    for i, axis in enumerate(axes):
        if axis is not None:
            before += shape[axis] != 1
        else:
            new.append((before, i))
    for pair in tuple(gone):  # a removed and a new 1 after the same dims cancel
        same = next((n for n in new if n[0] == pair[0]), None)
        if same is not None:
            new.remove(same)
            gone.remove(pair)
    if gone and new:
        return None
    if new:
        return g.Unsqueeze(x, axes=[i for _, i in new])
    return g.Squeeze(x, axes=[i for _, i in gone]) if gone else x


@rule(
    lambda g, x, inner, transpose, outer: g.Reshape(g.Transpose(g.Reshape(x, ...) @ inner) @ transpose, ...) @ outer,
    allow_other_uses=True,
    contract=EXACT,
    group="transpose-without-reshapes",
)
def transpose_without_reshapes(g: RewriteBuilder, x: Value, inner: Op, transpose: Op, outer: Op) -> Value:
    """Reshape(Transpose(Reshape(x, (-1, ...)))) => Transpose(x), where it merges leading dims, and splits them again"""
    merged, result = inner.outputs[0].shape, outer.outputs[0].shape
    lead = x.rank - len(merged) + 1
    perm = full_perm(transpose.attr("perm"), len(merged))
    require(lead > 1 and perm[:1] == [0] and len(result) == x.rank, "no leading dims are merged")
    require(same_shape(merged[1:], x.shape[lead:]), "dims other than the leading dims are merged")
    moved = [lead - 1 + i for i in perm[1:]]
    full = [*range(lead), *moved]
    require(same_shape(result, tuple(x.shape[i] for i in full)), "the dims are not split back")
    return g.Transpose(x, perm=full)


SINKABLE_UNARY = tuple(sorted(ops_with(Trait.ELEMENTWISE)))
SINKABLE_BINARY = tuple(sorted(ops_with(Trait.BROADCASTING) - {"Where"}))
VARIADIC = frozenset({"Max", "Mean", "Min", "Sum"})  # broadcast by rule since opset 8
MAX_CHAIN = 16  # ops between two reshapes
MAX_BATCH_OPS = 2  # ops between a reshape of batch dims and a MatMul


@rule(
    lambda g, last, outer: g.one_of(*RESHAPE_OPS)(g.one_of(*SINKABLE_UNARY, *SINKABLE_BINARY)(...) @ last, ...) @ outer,
    contract=EXACT,
    group="sink-reshapes",
)
def sink_reshape(g: RewriteBuilder, last: Op, outer: Op) -> Value:
    """Reshape(Relu(Reshape(x, s)), t) => Relu(x), or Reshape(Relu(x), t), for any elementwise ops between"""
    between, inner = elementwise_chain(last)
    x, shape = operand(inner), inferred_shape(outer)
    cancels = same_shape(shape, x.shape)
    require(cancels or has_n_consumers(inner.outputs[0]), "the number of Reshapes would not decrease")
    made, rank = x, min(x.rank, inner.outputs[0].rank)
    for op in between[::-1]:
        at = shaped_operand(op)
        require(all(c is None or i == at or c.rank <= rank for i, c in enumerate(op.inputs)), "a constant adds dims")
        made = getattr(g, op.type)(*op.inputs[:at], made, *op.inputs[at + 1 :], **op.attrs)
    if cancels:
        return made
    if (done := build_squeeze_or_unsqueeze(g, made, inner, outer)) is not None:
        return done
    return g.Reshape(made, shape=reshape_target(x, shape, inner, outer))


def elementwise_chain(last: Op) -> tuple[list[Op], Op]:
    """The elementwise ops from `last` up to a reshape, and that; declines where there is none near."""
    between = [last]
    while len(between) <= MAX_CHAIN:
        op = between[-1]
        value = operand(op, shaped_operand(op))
        maker = known(op.graph.producer(value), "no Reshape precedes it")
        if maker.type in RESHAPE_OPS and not maker.domain:
            return between, maker
        require(not maker.domain and has_n_consumers(value), "an intermediate value has other consumers")
        between.append(maker)
    raise MatchFailure("no Reshape is in reach")


def shaped_operand(op: Op) -> int:
    """The input of an elementwise op that has its shape; declines if there are two, or for another op."""
    if op.type in SINKABLE_UNARY:
        return 0
    require_numpy_broadcasting(op.version, VARIADIC_BROADCASTING_OPSET if op.type in VARIADIC else BROADCASTING_OPSET)
    single = [v is not None and v.tensor is not None and prod(v.tensor.dims) == 1 for v in op.inputs]
    require(len(single) == 2 and any(single) and op.type in SINKABLE_BINARY, "the op is not elementwise in one operand")
    return 0 if single[1] else 1


@rule(
    lambda g, x, w, inner, product, outer: g.Reshape(g.MatMul(reshape_of(g, x, inner), w) @ product, ...) @ outer,
    lambda g, x, w, c, inner, product, total, outer: (
        g.Reshape(g.Add(g.MatMul(reshape_of(g, x, inner), w) @ product, c) @ total, ...) @ outer
    ),
    allow_other_uses=True,
    group="multiply-without-reshapes",
)
def multiply_without_reshapes(
    g: RewriteBuilder,
    x: Value,
    w: Value,
    inner: Op,
    product: Op,
    outer: Op,
    c: Value | None = None,
    total: Op | None = None,
) -> Value:
    """Reshape(MatMul(Reshape(x, (-1, k)), w) + c, t) => MatMul(x, w) + c, of a matrix w and a vector c"""
    private = all(has_n_consumers(op.outputs[0]) for op in (product, total) if op is not None)
    require(private, "the product has other consumers")
    if c is not None:
        require_row_bias(c, w.shape, x)
    require_rows_restored(x, w.shape, inner, outer)
    return g.MatMul(x, w) if c is None else g.Add(g.MatMul(x, w), c)


@rule(
    lambda g, x, w, gemm, inner, outer, c=None: g.Reshape(g.Gemm(reshape_of(g, x, inner), w, c) @ gemm, ...) @ outer,
    allow_other_uses=True,
    group="multiply-without-reshapes",
)
def gemm_without_reshapes(
    g: RewriteBuilder, x: Value, w: Value, c: Value | None, gemm: Op, inner: Op, outer: Op
) -> Value:
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


@rule(
    lambda g, product, outer: g.one_of(*RESHAPE_OPS)(g.MatMul(...) @ product, ...) @ outer,
    contract=by_dtype(INTEGERS, EXACT),
    group="multiply-without-reshapes",
)
def multiply_without_batch_reshapes(g: RewriteBuilder, product: Op, outer: Op) -> Value:
    """Reshape(MatMul(Reshape(x), Reshape(w))) => MatMul(x, w), where batch dims are merged or split, and restored"""
    a, b = operand(product), operand(product, 1)
    require_same_batch(a, b)
    x, w = before_batch_reshape(g, a), before_batch_reshape(g, b)
    require_same_batch(x, w)
    batch = max(x.shape[:-2], w.shape[:-2], key=len)
    restored = same_shape(inferred_shape(outer), (*batch, a.shape[-2], b.shape[-1]))
    require(restored, "the batch dims are not restored")
    return g.MatMul(x, w)


def require_same_batch(a: Value, b: Value) -> None:
    """Decline unless the factors of a MatMul have the same dims before the last two, except for leading dims of 1."""
    require(a.rank >= 2 and b.rank >= 2, "a factor is a vector")
    first, second = (tuple(dropwhile(lambda d: d == 1, v.shape[:-2])) for v in (a, b))
    require(same_shape(first, second), "the batch dims differ")


def before_batch_reshape(g: RewriteBuilder, v: Value, depth: int = MAX_BATCH_OPS) -> Value:
    """Build `v` without the reshape of its batch dims, which ops on the last two dims may follow; else declines."""
    op = required_producer(v, *RESHAPE_OPS, "Softmax", "Transpose")
    if op.type in RESHAPE_OPS:
        x = operand(op)
        require(x.rank >= 2 and same_shape(x.shape[-2:], v.shape[-2:]), "the reshape changes the last two dims")
        return x
    require(depth > 0 and op.graph is g.graph and has_one_use(v), "an intermediate value has other consumers")
    rank = v.rank
    if op.type == "Softmax":
        require(normalized_axis(op, rank, 1 if op.version < 13 else -1) == rank - 1, "Softmax is along another axis")
        x = before_batch_reshape(g, operand(op), depth - 1)
        return g.Softmax(x, axis=x.rank - 1)
    require(op.attr("perm") == swap_of_last_two(rank), "Transpose moves other dims than the last two")
    x = before_batch_reshape(g, operand(op), depth - 1)
    return g.Transpose(x, perm=swap_of_last_two(x.rank))
