"""Fusion of scaled dot-product attention into Attention (since opset 23).

`fuse-attention`: Fusion of scaled dot-product attention on operands of 3 or 4 dims into Attention (since opset 23).
`fuse-into-attention`: Fusion of scales, of repeated heads, and of reshapes that split heads, into Attention.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from onnx import TensorProto

from ...core import (
    EXACT,
    ChangeLog,
    Graph,
    Op,
    RewriteBuilder,
    Value,
    by_dtype,
    conditional,
    made_from,
    require,
    rule,
    same_extent,
    same_extent_if_broadcast,
)  # fmt: skip
from ...core.ir.dtypes import DISCRETE_TYPES, FLOAT16_DTYPES, HALF_OR_SINGLE
from ...core.ir.expressions import Shape, is_known_le
from ...core.operators.declaration import Trait
from ...core.operators.operands import full_perm
from ...core.operators.table import ops_with
from ..support.operand_queries import (
    Inputs,
    has_n_consumers,
    is_finite,
    known,
    known_extent,
    known_scalar,
    operand,
    required_producer,
    same_shape,
    unless_declined,
    varying_operand,
)  # fmt: skip
from .polynomials import affine_form, linear_coefficient, require_dtype, scalar_constant

ATTENTION_OPSET = 23
CONDITION = (
    "nothing is empty, no row is masked throughout by -inf, no score is near the numbers that mask,"
    " in half precision no row is masked throughout and no score overflows"
)
LARGEST_SCORE = 1e3  # of those that no number masks
MASKING_NUMBER = -1e4  # a score that is replaced by it, or by a lower number, has no weight
# onnxruntime counts the lowest number of a type as -inf, and gives zeros for a row of nothing else. A mask that is
# bounded from below gives the mean, as a Softmax of equal scores does.
LOWEST_MASK: dict[int, float] = {TensorProto.FLOAT16: -4e4, TensorProto.FLOAT: -1e30}
SAVED_OPS = 8  # by an Attention: a product, Softmax, three ops of a softcap, a mask, a scale, Transposes or Reshapes
MAX_DEPTH = 8  # ops passed on the way from a Softmax to the product of queries and keys
MAX_MASK_OPS = 64  # ops looked at on the way to the constants of a mask
BOUNDED_THROUGH = {
    "Where": (1, 3),
    "Add": (0, 2),
    **dict.fromkeys(("Unsqueeze", "Reshape", "Expand", "Transpose"), (0, 1)),
}
"""The operators whose inputs from one index to another are bounded in place of their result."""
MASK_OPS = ops_with(Trait.MOVES_DATA) | {
    "Add", "Cast", "Concat", "ConstantOfShape", "Div", "Max", "Min", "Mul", "Neg", "Pad", "ScatterElements",
    "ScatterND", "Sub", "Sum", "Trilu", "Where",
}  # fmt: skip


class Scores(Struct, frozen=True):
    """The argument of a Softmax: `softcap(scale * q @ transposed_keys) + masks`; a softcap of 0 is none.

    A mask is a value that is added, or a Where that replaces scores.
    """

    q: Value
    transposed_keys: Value
    scale: float = 1.0
    softcap: float = 0.0
    masks: tuple[Value | Op, ...] = ()

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape ([batch,] heads, queries, keys)."""
        return (*self.q.shape[:-1], self.transposed_keys.shape[-1])


def read_scores(z: Value, depth: int = MAX_DEPTH) -> Scores:
    """The parts of the scores `z`, which nothing else reads; declines anything else. O(2^depth) at most."""
    require(depth > 0 and has_n_consumers(z), f"{z.name} is read elsewhere, or far from the product")
    op = required_producer(z, "MatMul", "Mul", "Div", "Add", "Where", "Cast")
    if op.type == "MatMul":
        return Scores(operand(op), operand(op, 1))
    if op.type == "Add":
        a, b = operand(op), operand(op, 1)
        scores = unless_declined(read_scores, a, depth - 1)
        scores, mask = (read_scores(b, depth - 1), a) if scores is None else (scores, b)
        for where in (m for m in scores.masks if isinstance(m, Op)):  # the sum differs where a row is masked throughout
            require(
                masking(where)[1] <= LOWEST_MASK.get(z.dtype, 0),
                f"{z.name} is added to scores that {where.label} replaces",
            )
        return replace(scores, masks=(*scores.masks, mask))
    if op.type == "Where":
        score, number = masking(op)
        require(number <= MASKING_NUMBER, f"{op.label} does not mask scores")
        scores = read_scores(score, depth - 1)
        return replace(scores, masks=(*scores.masks, op))
    if op.type == "Cast":
        require(operand(op).dtype == TensorProto.FLOAT16 and z.dtype == TensorProto.FLOAT, f"{z.name} is cast")
        return read_scores(operand(op), depth - 1)
    return read_scaled_scores(op, depth - 1)


def masking(where: Op) -> tuple[Value, float]:
    """The scores that a Where takes, and the constant number by which it replaces those that are masked."""
    a, b = operand(where, 1), operand(where, 2)
    score, fill = (b, a) if a.is_const else (a, b)
    return score, float(known(known_scalar(fill), f"{where.label} does not replace scores by one number"))


def read_scaled_scores(op: Op, depth: int) -> Scores:
    """The scores that `op` multiplies or divides by a constant, before masks are added; with a Tanh, their softcap."""
    x = varying_operand(op)
    factor = linear_coefficient(op.outputs[0], x)
    tanh = x.producer
    if tanh is None or tanh.type != "Tanh" or tanh.domain:
        scores = read_scores(x, depth)
        require(not scores.softcap, f"{x.name} is scaled after its softcap")
        scores = replace(scores, scale=scores.scale * factor)
    else:
        require(has_n_consumers(x), f"{x.name} is read elsewhere")
        scores = read_scores(operand(tanh), depth)
        require(not scores.softcap and factor > 0, f"{x.name} is not a softcap")
        scores = replace(scores, scale=scores.scale * factor, softcap=factor)
    require(not scores.masks, f"{x.name} is scaled with its mask")
    return scores


def is_small_or_masked(g: Any, z: Any) -> Any:
    """The expression for a score that is masked or small."""
    return g.Or(is_small(g, z), g.Less(z, MASKING_NUMBER - LARGEST_SCORE))


def is_small(g: Any, z: Any) -> Any:
    """The expression for a score that is far from the numbers that mask."""
    return g.Less(g.Abs(z), LARGEST_SCORE)


def is_masked_in_part(g: Any, z: Any, axis: Any) -> Any:
    """The expression for scores of which each is masked or small, and not all of a row by -inf."""
    return g.And(is_small_or_masked(g, z), is_finite(g, g.Softmax(z, axis=axis)))


def has_small_scores(g: Any, z: Any, axis: Any) -> Any:
    """The expression for scores of which each is masked or small, and of each row one is small.

    A half-precision Attention rounds scores to half: a row of nothing but -inf, or with an infinity, gives NaN.
    """
    small = g.Where(is_small(g, z), z, -np.inf)
    return g.And(is_small_or_masked(g, z), is_finite(g, g.Softmax(small, axis=axis)))


@rule(
    lambda g, z, v, axis: g.MatMul(g.Softmax(z, axis=axis), v),
    lambda g, z, v, axis: g.MatMul(g.Cast(g.Softmax(z, axis=axis), to=TensorProto.FLOAT16), v),
    contract=by_dtype(
        FLOAT16_DTYPES,
        conditional(CONDITION, assume=has_small_scores),
        otherwise=conditional(CONDITION, assume=is_masked_in_part),
    ),
    group="fuse-attention",
)
def fuse_attention(g: RewriteBuilder, z: Value, v: Value, axis: int) -> Value:
    """MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v) => Attention(q, k, v, mask)"""
    return build_attention(g, z, v, axis, guarded=False)


@rule(
    lambda g, p, v, zero: g.MatMul(g.Where(g.IsNaN(p), g.const(zero), p), v),
    contract=conditional("nothing is empty, and no score is NaN or infinite but where it is masked"),
    group="fuse-attention",
)
def fuse_guarded_attention(g: RewriteBuilder, p: Value, v: Value, zero: Value) -> Value:
    """MatMul(Where(IsNaN(p), 0, p), v), p = Softmax(scores + mask) => Attention(q, k, v, mask)"""
    softmax = required_producer(p, "Softmax")
    require(has_n_consumers(p, 2), f"{p.name} is read elsewhere")
    # Where a row is masked throughout by -inf, Attention gives zeros, as the guard does.
    require(scalar_constant(zero, p) == 0.0, "NaN is not replaced by 0")
    return build_attention(g, operand(softmax), v, softmax.attr("axis"), guarded=True)


def build_attention(g: RewriteBuilder, z: Value, v: Value, axis: int, *, guarded: bool) -> Value:
    """The Attention over the scores `z`."""
    require_dtype(v, HALF_OR_SINGLE)
    scores = read_scores(z)
    require(bool(scores.masks) or not guarded, "there is no mask to guard against")
    if scores.softcap:
        g.costs.require_fast_kernel("Attention softcap", z, saved=SAVED_OPS)
    q, q_scale = split_scale(scores.q)
    transposed_keys, k_scale = split_scale(scores.transposed_keys)
    scale = scores.scale * q_scale * k_scale
    require(scale > 0, "the scale is not positive")
    require(z.rank == v.rank and axis in {-1, z.rank - 1}, "the softmax is not over the last dim, or ranks differ")
    require(q.dtype == transposed_keys.dtype == v.dtype, "the operands differ in type")
    require_heads(q, transposed_keys, v)
    g.costs.require_nonempty("Attention", q, transposed_keys, v)
    mask = build_mask(g, scores, v, guarded=guarded)
    softmax_type = z.dtype if z.dtype != v.dtype else None
    keys = untransposed_keys(g, transposed_keys)
    heads = 1 if z.rank == 3 else None  # each head is a batch of its own
    return g.Attention(
        q, keys, v, mask, scale=scale, softcap=scores.softcap or None, softmax_precision=softmax_type,
        q_num_heads=heads, kv_num_heads=heads,
    )  # fmt: skip


def split_scale(v: Value) -> tuple[Value, float]:
    """The x and the k with which `v` is `k * x`, as queries and keys are often scaled before they meet."""
    x, k, b = affine_form(v)
    return (x, k) if b == 0 else (v, 1.0)


def require_heads(q: Value, transposed_keys: Value, v: Value) -> None:
    """Decline unless all three have the same batches and heads, and no extent is 0."""
    require(q.rank == transposed_keys.rank == v.rank in {3, 4}, "the operands do not have 3 or 4 dims")
    for other in (transposed_keys, v):
        same = same_shape(q.shape[:-2], other.shape[:-2])
        require(same, f"{q.name} and {other.name} may differ in batches or heads")
    require(0 not in (*q.shape, *transposed_keys.shape, *v.shape), "an extent is 0")


def build_mask(g: RewriteBuilder, scores: Scores, v: Value, *, guarded: bool) -> Value | None:
    """The sum of the masks, with an entry for each query and key; None if there are no masks."""
    total: Value | None = None
    low = LOWEST_MASK[v.dtype]
    high = highest_mask([m for m in scores.masks if isinstance(m, Value)], low)
    for m in scores.masks:
        if isinstance(m, Op):
            total = replaced_mask(g, m, g.const(0, like=v) if total is None else total, low)
            continue
        mask = bound_mask(g, m, low, high, guarded=guarded)
        mask = mask if mask.dtype == v.dtype else g.Cast(mask, to=v.dtype)
        total = mask if total is None else g.Add(total, mask)
    if total is None:
        return None
    require(total.rank > 0, "a number is added to all scores")
    require(is_added_to_each_score(total.shape, scores, v), "the mask stretches the scores")
    mask = expand_mask(g, total, scores, v)
    return g.Unsqueeze(mask, axes=[1]) if mask.rank == scores.q.rank == 3 else mask


def is_added_to_each_score(mask: Shape, scores: Scores, v: Value) -> bool:
    """Whether the sum of a mask and scores, which the model computes, has the shape of the scores.

    A mask cannot add columns if there is a value for each key: MatMul fails unless there is one for each column.
    """
    fits = [m == 1 or same_extent_if_broadcast(m, s) for m, s in zip(mask[::-1], scores.shape[::-1], strict=False)]
    fits[0] = fits[0] or same_extent(scores.shape[-1], v.shape[-2])
    return len(mask) <= len(scores.shape) and all(fits)


def replaced_mask(g: RewriteBuilder, where: Op, mask: Value, low: float) -> Value:
    """`mask`, but `low` or -inf where a Where replaces scores by a number.

    Scores are lost in the sum with `low`, so that a row of nothing else has equal weights, as behind the Where.
    """
    score, number = masking(where)
    fill = g.const(low if np.isfinite(number) else -np.inf, like=mask)
    return g.Where(operand(where), *(mask if v is score else fill for v in where.inputs[1:]))


def highest_mask(terms: Sequence[Value | None], low: float) -> float:
    """The upper bound of masks that are added up: infinity, or -`low` where one may lift what another one masks."""
    may_lift = len(terms) > 1 and any(v is not None and may_exceed(v, -low) for v in terms)
    return -low if may_lift else np.inf


def bound_mask(
    g: RewriteBuilder, mask: Value, low: float, high: float = np.inf, *, guarded: bool, depth: int = MAX_DEPTH
) -> Value:
    """The mask with its finite elements, or all elements unless `guarded`, between `low` and `high`."""
    if mask.is_const:
        data = mask.const
        raised = np.where(np.isinf(data), data, np.clip(data, low, high))
        return mask if np.array_equal(raised, data, equal_nan=True) else g.const(raised, like=mask)
    op = mask.producer
    if op is not None and not op.domain and depth and op.type in BOUNDED_THROUGH:
        first, last = BOUNDED_THROUGH[op.type]
        high = highest_mask(op.inputs, low) if op.type == "Add" and high == np.inf else high
        inputs = [
            v if v is None or not first <= i < last
            else bound_mask(g, v, low, high, guarded=guarded, depth=depth - 1)
            for i, v in enumerate(op.inputs)
        ]  # fmt: skip
        return mask if tuple(inputs) == op.inputs else getattr(g, op.type)(*inputs, **op.attrs)
    if not may_hold_lowest(mask, -low):
        return mask
    lowest = g.const(low, like=mask)
    bounded = g.Max(mask, lowest) if high == np.inf else g.Clip(mask, lowest, g.const(high, like=mask))
    return g.Where(g.IsInf(mask), mask, bounded) if guarded else bounded


def may_exceed(mask: Value, limit: float, depth: int = MAX_DEPTH) -> bool:
    """Whether a finite element of a mask may be a number above `limit`."""
    if mask.is_const:
        data = mask.const
        return mask.dtype not in DISCRETE_TYPES and bool(data.max(initial=0, where=np.isfinite(data)) > limit)
    op = mask.producer
    if op is not None and not op.domain and depth and op.type in BOUNDED_THROUGH:
        first, last = BOUNDED_THROUGH[op.type]
        return any(v is not None and may_exceed(v, limit, depth - 1) for v in op.inputs[first:last])
    return may_hold_lowest(mask, limit)


def may_hold_lowest(mask: Value, limit: float) -> bool:
    """Whether an element may be a number below `-limit`: of an input of the model, or from such a constant. O(1)."""
    seen: set[Value] = set()
    stack = [mask]
    while stack:
        v = stack.pop()
        if v in seen or v.dtype in DISCRETE_TYPES:
            continue
        seen.add(v)
        op = v.producer
        fill = op.attr("value") if op is not None and op.type == "ConstantOfShape" else None
        if v.is_const or fill is not None:
            data = np.abs(v.const if v.is_const else fill.array)
            if data.max(initial=0, where=np.isfinite(data)) >= limit:
                return True
        elif op is None or len(seen) > MAX_MASK_OPS:
            return True
        elif not op.domain and op.type in MASK_OPS:
            stack += [i for i in op.inputs if i is not None]
    return False


def expand_mask(g: RewriteBuilder, mask: Value, scores: Scores, v: Value) -> Value:
    """The mask with all rows and columns of the scores: onnxruntime broadcasts the first two dims only."""
    have, want = (1, *mask.shape)[-2:], scores.shape[-2:]
    kept = [
        same_extent_if_broadcast(m, d) or (m is not None and is_known_le(2, m)) for m, d in zip(have, want, strict=True)
    ]
    if all(kept) and mask.rank > 1:
        return mask
    sizes = [1 if is_kept else d for is_kept, d in zip(kept, want, strict=True)]
    if all(isinstance(d, int) for d in sizes):
        return g.Expand(mask, g.const(sizes))
    extents = [
        g.const([d]) if isinstance(d, int) else extent_of(g, x, x.rank - 2)
        for d, x in zip(sizes, (scores.q, v), strict=True)
    ]  # fmt: skip
    return g.Expand(mask, g.Concat(*extents, axis=0))


def extent_of(g: RewriteBuilder, x: Value, axis: int) -> Value:
    """The extent of an axis, as a vector of one element."""
    return g.Shape(x, start=axis, end=axis + 1)


def untransposed_keys(g: RewriteBuilder, transposed_keys: Value) -> Value:
    """The keys of which `transposed_keys` has the last two dims exchanged."""
    axes = list(range(transposed_keys.rank))
    op = transposed_keys.producer
    k, perm = transposed_keys, axes
    if op is not None and op.type == "Transpose" and not op.domain:
        k, perm = operand(op), full_perm(op.attr("perm"), len(axes))
    perm = [*perm[:-2], perm[-1], perm[-2]]
    return k if perm == axes else g.Transpose(k, perm=perm)


HEADS_FIRST = [0, 2, 1, 3]


def split_heads(g: Any, x: Any, reshape: Any) -> Any:
    """The pattern of queries, keys or values divided into heads."""
    return g.Transpose(g.Reshape(x, ...) @ reshape, perm=HEADS_FIRST)


@rule(
    lambda g, q, k, v, op, c, m=None: g.Attention(g.Mul(q, g.const(c)), k, v, m) @ op,
    lambda g, q, k, v, op, c, m=None: g.Attention(q, g.Mul(k, g.const(c)), v, m) @ op,
    contract=conditional("no score overflows"),
    group="fuse-into-attention",
)
def fold_scale_into_attention(
    g: RewriteBuilder, q: Value, k: Value, v: Value, op: Op, c: Value, m: Value | None
) -> Value:
    """Attention(q * c, k, v), Attention(q, k * c, v) => Attention(q, k, v, scale=scale * c)"""
    require_dtype(q, HALF_OR_SINGLE)  # a scale is a 32-bit float
    factor = scalar_constant(c, k if op.inputs[0] is q else q)
    scale = op.attr("scale")
    if scale is None:
        require(q.rank == 4, "the size of a head is unknown")
        size = known_extent(q, 3)
        require(size > 0, "the extent of the last dim is 0")
        scale = 1 / sqrt(size)
    require(scale * factor > 0, "the scale would not be positive")  # its root is taken
    attrs: dict[str, Any] = {**op.attrs, "scale": scale * factor}
    return g.Attention(q, k, v, m, outputs=1, **attrs)[0]


@rule(
    lambda g, q, k, v, more, k4, v4, op: (
        g.Attention(q, g.Reshape(g.Expand(k, ...), ...) @ k4, g.Reshape(g.Expand(v, ...), ...) @ v4, *more) @ op
    ),
    contract=EXACT,
    group="fuse-into-attention",
)
def fold_repeated_heads(g: RewriteBuilder, q: Value, k: Value, v: Value, more: Inputs, k4: Op, v4: Op, op: Op) -> Value:
    """Attention(q, Reshape(Expand(k)), Reshape(Expand(v))) => Attention(q, k, v), each head of k for several of q"""
    require(len(op.outputs) == 1 and q.rank == 4, "there are further outputs, or the operands do not have 4 dims")
    keys, values = unrepeated_heads(k, k4.outputs[0], 1), unrepeated_heads(v, v4.outputs[0], 1)
    require(same_extent(keys.shape[1], values.shape[1]), "keys and values are repeated differently")
    return g.Attention(q, keys, values, *more, **op.attrs)


def unrepeated_heads(part: Value, repeated: Value, axis: int) -> Value:
    """The value whose heads, along `axis`, each stand several times in `repeated`; `part` has an axis of 1 behind."""
    heads = operand(required_producer(part, "Unsqueeze", "Reshape"))
    require(heads.rank == repeated.rank == 4, "heads are not repeated along an axis of their own")
    count, total = known_extent(heads, axis), known_extent(repeated, axis)
    own, made = list(heads.shape), list(repeated.shape)
    own[axis] = made[axis] = 1
    require(same_shape(part.shape, (*heads.shape[: axis + 1], 1, *heads.shape[axis + 1 :])), "no axis is repeated")
    require(same_shape(tuple(own), tuple(made)), "other dims than the heads change")
    require(0 < count <= total and total % count == 0, "the heads are not repeated")
    return heads


@rule(
    lambda g, q, k, v, q4, k4, v4, more, op: (
        g.Attention(split_heads(g, q, q4), split_heads(g, k, k4), split_heads(g, v, v4), *more) @ op
    ),
    allow_other_uses=True,
    group="fuse-into-attention",
)
def fold_heads_into_attention(
    g: RewriteBuilder, q: Value, k: Value, v: Value, more: Inputs, q4: Op, k4: Op, v4: Op, op: Op
) -> tuple[Value, ...]:
    """Attention(Transpose(Reshape(q)), ...) => Transpose(Reshape(Attention(q, k, v, q_num_heads, kv_num_heads)))"""
    heads, kv_heads = head_count(q, q4.outputs[0]), head_count(k, k4.outputs[0])
    require(kv_heads == head_count(v, v4.outputs[0]), "keys and values differ in heads")
    attrs = {"scale": sqrt(heads / known_extent(q, 2)), **op.attrs, "q_num_heads": heads, "kv_num_heads": kv_heads}
    outputs = g.Attention(q, k, v, *more, outputs=len(op.outputs), **attrs)
    return (split_into_heads(g, outputs[0], heads, known_extent(v, 2) // kv_heads), *outputs[1:])


def split_into_heads(g: RewriteBuilder, x: Value, heads: int, width: int) -> Value:
    """`x` of shape (batch, length, heads * width) as (batch, heads, length, width), where batch may be 0."""
    return g.Transpose(g.Reshape(x, g.const([0, 0, heads, width])), perm=HEADS_FIRST)


def head_count(x: Value, split: Value) -> int:
    """The number of heads into which `split` divides the last of the 3 dims of `x`."""
    keeps_rows = all(map(same_extent, x.shape[:2], split.shape[:2]))
    require(x.rank == 3 and split.rank == 4 and keeps_rows, "the last dim is not split into heads")
    count, width = split.shape[2], known_extent(x, 2)
    heads = count if isinstance(count, int) else width // max(known_extent(split, 3), 1)
    require(heads > 0 and width > 0 and width % heads == 0, f"the last dim of {x.name} does not divide into heads")
    return heads


class FuseCacheIntoAttention(Struct, frozen=True):
    """Attention(q, Concat(past, k), Concat(past, v)) => Attention(q, k, v, past keys, past values), with the cache."""

    name: str = "fuse-cache-into-attention"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Visit each Attention once. O(ops), and at most MAX_ANCESTORS for each whose cache has other readers."""
        return sum(
            self._fuse(op, change_log)
            for g in tuple(graph.with_subgraphs())
            for op in sorted(g.ops("Attention"), key=lambda op: op.order_key)
        )

    def _fuse(self, op: Op, change_log: ChangeLog) -> bool:
        joins = unless_declined(cache_joins, op)
        if joins is None or not change_log.request_change(self.name, op.outputs[0].name, (op, *joins), exact=False):
            return False
        graph, g = op.graph, RewriteBuilder(op.graph, op)
        keys, values = ((operand(join), operand(join, 1)) for join in joins)
        mask = op.input(3)
        made = g.Attention(operand(op), keys[1], values[1], mask, keys[0], values[0], outputs=3, **op.attrs)
        for new, old in zip(made, (op, *joins), strict=True):
            graph.take_over(new, old.outputs[0])
        for new in g.added_ops:
            made_from(new, self.name, (op, *joins))
        graph.discard((op, *joins))
        return True


def cache_joins(op: Op) -> tuple[Op, Op]:
    """The Concats of past and new keys, and of past and new values; declines an Attention without."""
    require(not op.domain and op.schema is not None, "it is not the operator of ONNX")
    require(len(op.inputs) <= 4 and len(op.outputs) == 1, "it has a cache already")
    require(not op.attr("is_causal", 0), "causal masks are aligned in another way behind a cache")
    joins = (required_producer(operand(op, 1), "Concat"), required_producer(operand(op, 2), "Concat"))
    for join in joins:
        x = join.outputs[0]
        require(join.graph is op.graph and len(join.inputs) == 2 and x.rank == 4, f"{x.name} is not a cache of 4 dims")
        require(join.attr("axis") in {2, -2}, f"{x.name} is not joined along the sequence")
    require(joins[0] is not joins[1], "keys and values are the same")
    inputs = [operand(op), op.input(3), *(operand(join, 1) for join in joins)]
    readers = {reader for join in joins for reader in join.outputs[0].consumers} - {op}
    require(not (readers and may_depend_on(inputs, readers)), "the inputs of Attention depend on the joined cache")
    return joins


MAX_ANCESTORS = 1000


def may_depend_on(values: Iterable[Value | None], ops: set[Op]) -> bool:
    """Whether one of `values` is computed from an output of one of `ops`; so too if that takes long to find out."""
    seen: set[Op] = set()
    stack = [v.producer for v in values if v is not None and v.producer is not None]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op in ops or len(seen) > MAX_ANCESTORS:
            return True
        read = (*op.inputs, *(v for g in op.subgraphs for v in g.captured_values()))
        stack += [v.producer for v in read if v is not None and v.producer is not None]
    return False


FUSE_CACHE_INTO_ATTENTION = FuseCacheIntoAttention()
