"""Fusion of rotary position embeddings into RotaryEmbedding (since opset 23)."""

from __future__ import annotations

from ...core import EXACT, Op, RewriteBuilder, Value, require, rule, same_extent
from ...core.ir.dtypes import HALF_OR_SINGLE
from ...core.operators.operands import slice_bounds, slice_range
from ..support.operand_queries import constant_numbers, known, known_extent, known_scalar, operand, required_producer
from .attention import extent_of, head_count, split_heads, split_into_heads
from .polynomials import require_dtype

MAX_DEPTH = 8  # ops passed on the way from a table of angles to the numbers of which it repeats each twice


@rule(
    lambda g, x, hi, lo, c, s, axis: g.Add(g.Mul(x, c), g.Mul(g.Concat(g.Neg(hi), lo, axis=axis), s)),
    group="fuse-rotary",
)
def fuse_rotary(g: RewriteBuilder, x: Value, hi: Value, lo: Value, c: Value, s: Value, axis: int) -> Value:
    """X * [c c] + Concat(-x[half:], x[:half]) * [s s] => RotaryEmbedding(x, c, s)"""
    require_dtype(x, HALF_OR_SINGLE)
    require(x.rank == 4 and axis in {-1, 3}, "it does not have 4 dims, or rotates along an axis that is not the last")
    half, odd = divmod(known_extent(x, 3), 2)
    require(half > 0 and not odd, "the last dim does not divide into two halves")
    whole, start = cut_of(x)
    is_cut = [cut_of(part) == (whole, start + offset) for part, offset in ((lo, 0), (hi, half))]
    same_size = same_extent(lo.shape[3], half) and same_extent(hi.shape[3], half)
    require(all(is_cut) and same_size, f"{lo.name} and {hi.name} are not the halves of {x.name}")
    return g.RotaryEmbedding(x, *(angle_table(g, table, x, half) for table in (c, s)))


def cut_of(v: Value) -> tuple[Value, int]:
    """The value of which `v` is a part along the last of 4 dims, by Split or Slice, and the index where it begins."""
    start = 0
    while (op := v.producer) is not None and not op.domain and op.type in {"Split", "Slice"}:
        x = operand(op)
        if x.rank != 4:
            break
        if op.type == "Split":
            before = op.outputs[: op.outputs.index(v)]
            offset = sum(known_extent(part, 3) for part in before) if op.attr("axis", 0) in {-1, 3} else None
        else:
            offset = slice_start(op, known_extent(x, 3))
        if offset is None:
            break
        v, start = x, start + offset
    return v, start


def slice_start(op: Op, extent: int) -> int | None:
    """The first index of a Slice of the last of 4 dims, of that extent, alone; None for another."""
    bounds = slice_bounds(op, 4)
    start, end, step = bounds.get(3, (None, None, 0))
    if len(bounds) != 1 or step != 1 or not isinstance(start, int) or not isinstance(end, int):
        return None
    return known(slice_range(extent, start, end, step), f"the bounds of {op.label} are not exact").start


def angle_table(g: RewriteBuilder, table: Value, x: Value, half: int) -> Value:
    """The first half of a table of which both halves are the same, with the shape (batch, length, half)."""
    shape = (*[1] * (4 - table.rank), *table.shape)
    wanted = (x.shape[0], 1, x.shape[2], 2 * half)
    fits = len(shape) == 4 and all(same_extent(a, b) for a, b in zip(shape[1:], wanted[1:], strict=True))
    is_shared = shape[0] == 1 and not same_extent(shape[0], wanted[0])
    require(fits and (is_shared or same_extent(shape[0], wanted[0])), f"{table.name} is not a table of positions")
    found = first_half(g, table, half)
    if table.rank == 4:
        found = g.Squeeze(found, axes=[1])
    elif table.rank == 2:
        found = g.Unsqueeze(found, axes=[0])
    if not is_shared:
        return found
    batch = x.shape[0]
    one = g.const([1])
    return g.Expand(
        found, g.Concat(g.const([batch]) if isinstance(batch, int) else extent_of(g, x, 0), one, one, axis=0)
    )


def first_half(g: RewriteBuilder, table: Value, half: int, depth: int = MAX_DEPTH) -> Value:
    """The first half of a value along its last axis, worked out of a smaller one; declines halves that may differ."""
    if table.is_const:
        data = table.const
        require(bool((data[..., :half] == data[..., half:]).all()), f"the halves of {table.name} differ")
        return g.const(data[..., :half], like=table)
    op = required_producer(table, "Concat", "Cos", "Sin", "Cast", "Mul", "Unsqueeze", "Squeeze")
    require(depth > 0, f"{table.name} is far from the numbers that it repeats")
    last = table.rank - 1
    if op.type == "Concat":
        a, b = operand(op), operand(op, 1)
        require(len(op.inputs) == 2 and a is b and op.attr("axis") in {-1, last}, f"the halves of {table.name} differ")
        require(same_extent(a.shape[-1], half), f"{table.name} is not made of two halves")
        return a
    x, others = operand(op), list(op.inputs[1:])
    if op.type == "Mul" and known_scalar(operand(op, 1)) is None:
        require(known_scalar(x) is not None, f"{table.name} is a product of two values")
        x, others = operand(op, 1), [x]
    if op.type in {"Unsqueeze", "Squeeze"}:
        axes, rank = constant_numbers(op), max(table.rank, x.rank)
        is_last_kept = axes is not None and all(axis % rank != rank - 1 for axis in axes)
        require(is_last_kept, f"the last axis of {x.name} is not the last axis of {table.name}")
    require(same_extent(x.shape[-1], 2 * half), f"{x.name} is stretched")
    return getattr(g, op.type)(first_half(g, x, half, depth - 1), *others, **op.attrs)


@rule(
    lambda g, part, rest, c, s, op, axis: g.Concat(g.RotaryEmbedding(part, c, s) @ op, rest, axis=axis),
    contract=EXACT,
    group="fuse-rotary",
)
def fuse_partial_rotary(g: RewriteBuilder, part: Value, rest: Value, c: Value, s: Value, op: Op, axis: int) -> Value:
    """Concat(RotaryEmbedding(x[:n]), x[n:]) => RotaryEmbedding(x, rotary_embedding_dim=n)"""
    require(part.rank == 4 and axis in {-1, 3}, "the parts do not have 4 dims, or the last axis is not the joined one")
    size = known_extent(part, 3)
    x, start = cut_of(part)
    require(cut_of(rest) == (x, start + size), f"{rest.name} is not the rest of {x.name}")
    require(start == 0 and same_extent(x.shape[3], size + known_extent(rest, 3)), f"{x.name} has further parts")
    require(not op.attr("rotary_embedding_dim", 0), "it rotates a part already")
    return g.RotaryEmbedding(x, c, s, **{**op.attrs, "rotary_embedding_dim": size})


@rule(
    lambda g, x, c, s, split, op: g.RotaryEmbedding(split_heads(g, x, split), c, s) @ op,
    contract=EXACT,
    allow_other_uses=True,
    group="fuse-rotary",
)
def fold_heads_into_rotary(g: RewriteBuilder, x: Value, c: Value, s: Value, split: Op, op: Op) -> Value:
    """RotaryEmbedding(Transpose(Reshape(x))) => Transpose(Reshape(RotaryEmbedding(x, num_heads)))"""
    heads = head_count(x, split.outputs[0])
    rotated = g.RotaryEmbedding(x, c, s, **{**op.attrs, "num_heads": heads})
    return split_into_heads(g, rotated, heads, known_extent(x, 2) // heads)
