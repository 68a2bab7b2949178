"""Simplification of sequences and optional values whose content is known.

`resolve-sequences`: Simplification of sequences that are constructed and read in one graph.
`drop-optionals`: Simplification of optional values whose content is known.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core import EXACT, Op, RewriteBuilder, Value, require, rule
from ..support.operand_queries import Values, require_gatherable, required_scalar

MAX_PIECES = 1000  # pieces that are not listed one by one
sequence_rule = partial(rule, contract=EXACT, allow_other_uses=True, group="resolve-sequences")
optional_rule = partial(rule, contract=EXACT, allow_other_uses=True, group="drop-optionals")


def listed(g: Any, xs: Any, op: Any) -> Any:
    """The pattern of a sequence of given elements."""
    return g.one_of("SequenceConstruct", "SequenceEmpty")(*xs) @ op


@sequence_rule(lambda g, xs, i: g.SequenceAt(g.SequenceConstruct(*xs), g.const(i)))
def sequence_at_of_construct(g: RewriteBuilder, xs: Values, i: Value) -> Value:
    """SequenceAt(SequenceConstruct(xs), i) => xs[i]"""
    return xs[normalized_position(i, len(xs))]


@sequence_rule(lambda g, s, x, i: g.SequenceAt(g.SequenceInsert(s, x), g.const(i)))
def sequence_at_of_insert(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """SequenceAt(SequenceInsert(s, x), -1) => x"""
    require(required_scalar(i) == -1, "the position may be any")
    return x


@sequence_rule(lambda g, xs, made: g.SequenceLength(listed(g, xs, made)))
def fold_length_of_construct(g: RewriteBuilder, xs: Values) -> Value:
    """SequenceLength(SequenceConstruct(xs)) => the number of xs, SequenceLength(SequenceEmpty()) => 0"""
    return g.const(np.int64(len(xs)))


@sequence_rule(lambda g, xs, concat: g.ConcatFromSequence(g.SequenceConstruct(*xs)) @ concat)
def concat_from_construct(g: RewriteBuilder, xs: Values, concat: Op) -> Value:
    """ConcatFromSequence(SequenceConstruct(xs)) => Concat(xs), or Unsqueeze(x) of a single x where the axis is new"""
    axis = concat.attr("axis")
    if concat.attr("new_axis"):
        require(len(xs) == 1, "each piece would need an Unsqueeze")
        return g.Unsqueeze(xs[0], axes=[axis])
    return g.Concat(*xs, axis=axis)


@sequence_rule(lambda g, xs, x, made, at=None: g.SequenceInsert(listed(g, xs, made), x, at))
def insert_into_construct(g: RewriteBuilder, xs: Values, x: Value, at: Value | None) -> Value:
    """SequenceInsert(SequenceConstruct(xs), x, at) => SequenceConstruct(xs[:at], x, xs[at:]), also of SequenceEmpty"""
    n = len(xs) if at is None else normalized_position(at, len(xs), more=1)
    return g.SequenceConstruct(*xs[:n], x, *xs[n:])


@sequence_rule(lambda g, xs, at=None: g.SequenceErase(g.SequenceConstruct(*xs), at))
def erase_from_construct(g: RewriteBuilder, xs: Values, at: Value | None) -> Value:
    """SequenceErase(SequenceConstruct(xs), at) => SequenceConstruct(xs[:at], xs[at + 1:])"""
    n = len(xs) - 1 if at is None else normalized_position(at, len(xs))
    rest = xs[:n] + xs[n + 1 :]
    return g.SequenceConstruct(*rest) if rest else g.SequenceEmpty(dtype=xs[0].dtype)


@sequence_rule(lambda g, x, split, i, sizes=None: g.SequenceAt(g.SplitToSequence(x, sizes) @ split, g.const(i)))
def sequence_at_of_split(g: RewriteBuilder, x: Value, split: Op, i: Value, sizes: Value | None) -> Value:
    """SequenceAt(SplitToSequence(x, sizes), i) => the Slice of x, or Gather(x, i) where pieces lose the axis"""
    axis, index = split.attr("axis"), required_scalar(i)
    require_axis_stays(split, sizes)
    if sizes is None and not split.attr("keepdims"):
        require_gatherable(x)
        return g.Gather(x, g.const(np.int64(index)), axis=axis)
    lengths = piece_lengths(x, axis, sizes)
    if lengths is not None:
        index = normalized_position(i, len(lengths))
        begin = sum(lengths[:index])
        end = begin + lengths[index]
    else:
        require(index >= 0, "the number of pieces is unknown")
        length = 1 if sizes is None else required_scalar(sizes)
        begin, end = index * length, (index + 1) * length
    bounds = [g.const(np.array([n], np.int64)) for n in (begin, end, axis)]
    return g.Slice(x, *bounds)


@sequence_rule(lambda g, x, split, sizes=None: g.SequenceLength(g.SplitToSequence(x, sizes) @ split))
def fold_length_of_split(g: RewriteBuilder, x: Value, split: Op, sizes: Value | None) -> Value:
    """SequenceLength(SplitToSequence(x, sizes)) => how many pieces there are"""
    lengths = piece_lengths(x, split.attr("axis"), sizes)
    require(lengths is not None, "the number of pieces is unknown")
    return g.const(np.int64(len(lengths or ())))


@sequence_rule(
    lambda g, x, split, concat, sizes=None: g.ConcatFromSequence(g.SplitToSequence(x, sizes) @ split) @ concat
)
def concat_from_split(g: RewriteBuilder, x: Value, split: Op, concat: Op, sizes: Value | None) -> Value:
    """ConcatFromSequence(SplitToSequence(x)) => x, along the same axis"""
    require_axis_stays(split, sizes)
    loses_axis = sizes is None and not split.attr("keepdims")
    require(bool(concat.attr("new_axis")) == loses_axis, "the ops change the rank")
    axes = split.attr("axis"), concat.attr("axis")
    require(axes[0] == axes[1] or axes[0] % x.rank == axes[1] % x.rank, "the axes differ")
    return x


def require_axis_stays(split: Op, sizes: Value | None) -> None:
    """Decline where sizes are given: ONNX then ignores keepdims, onnxruntime 1.31, given one number, does not."""
    require(sizes is None or sizes.rank == 1 or split.attr("keepdims"), "the pieces may not keep the axis")


def normalized_position(v: Value, count: int, more: int = 0) -> int:
    """A position among `count` pieces, or `more` after them, counted from the front."""
    index = required_scalar(v)
    require(-count <= index < count + more, f"position {index} is out of range for {count} pieces")
    return index + count if index < 0 else index


def piece_lengths(x: Value, axis: int, sizes: Value | None) -> list[int] | None:
    """The extents of the pieces of a SplitToSequence; None where they are unknown or too many."""
    if sizes is not None:
        require(sizes.is_const, f"{sizes.name} is not a constant")
        if sizes.rank == 1:
            return [int(n) for n in sizes.const]
    require(-x.rank <= axis < x.rank, f"axis {axis} does not fit rank {x.rank}")
    extent = x.shape[axis]
    length = 1 if sizes is None else required_scalar(sizes)
    require(length > 0, "the length of a piece is not positive")
    if not isinstance(extent, int) or extent > MAX_PIECES * length:
        return None
    return [min(length, extent - begin) for begin in range(0, extent, length)]


@optional_rule(lambda g, x, made: g.OptionalGetElement(g.Optional(x) @ made), lambda g, x: g.OptionalGetElement(x))
def unwrap_optional(g: RewriteBuilder, x: Value, made: Op | None = None) -> Value:
    """OptionalGetElement(Optional(x)) => x, OptionalGetElement(x) => x, where x is a tensor or a sequence"""
    require(made is not None or is_non_optional(x), "x may be an optional value")
    return x


@optional_rule(
    lambda g, made, x=None: g.OptionalHasElement(g.Optional(x) @ made), lambda g, x=None: g.OptionalHasElement(x)
)
def fold_has_element(g: RewriteBuilder, x: Value | None, made: Op | None = None) -> Value:
    """OptionalHasElement(Optional(x)) => true, also of a tensor or a sequence x; OptionalHasElement() => false"""
    require(made is not None or x is None or is_non_optional(x), "x may be an optional value")
    return g.const(np.array(x is not None))


def is_non_optional(x: Value) -> bool:
    """Whether a value is known to be a tensor or a sequence."""
    dtype = x.known_dtype  # learns the type, if it can be learnt
    return dtype != 0 if x.type is None else x.type.HasField("sequence_type")
