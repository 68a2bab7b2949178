"""Merging of Concats, their cancellation with Splits and Slices, and reads of one of their inputs.

`merge-concats`: Merging of nested Concats.
`cancel-concats`: Cancellation of Concats with Splits and Slices.
`bypass-concats`: Replacement of reads of a Concat by reads of one of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ...core import EXACT, MatchFailure, Op, RewriteBuilder, Value, require, rule, same_extent
from ..support.operand_queries import Values, constant_numbers, known_extent, operand, require_gatherable, same_shape
from .slices import INT32_MAX, SliceRange, build_slice, range_of_indices, required_slice_ranges

cancel_rule = partial(rule, allow_other_uses=True, contract=EXACT, group="cancel-concats")
bypass_rule = partial(rule, allow_other_uses=True, contract=EXACT, group="bypass-concats")


@rule(
    lambda g, before, ins, after, inner, outer: g.Concat(*before, g.Concat(*ins) @ inner, *after) @ outer,
    contract=EXACT,
    group="merge-concats",
)
def merge_concats(g: RewriteBuilder, inner: Op, outer: Op) -> Value:
    """Concat(a, Concat(b, c), d) => Concat(a, b, c, d), along the same axis"""
    require(same_axis(inner, outer), "the axes differ")
    # One at a time, each wider than the last, they would take quadratic time.
    require(not _is_inside(outer), "another Concat, which reads it, is merged with both")
    return g.Concat(*_flattened(outer), axis=written_axis(outer))


def _flattened(outer: Op) -> Iterator[Value]:
    """The inputs of a Concat, and of Concats inside it that nothing else reads. O(inputs)."""
    work = list(outer.inputs[::-1])
    while work:
        value = work.pop()
        maker = outer.graph.producer(value)
        if value is not None and (maker is None or not _is_inside(maker) or not same_axis(maker, outer)):
            yield value
        elif maker is not None:
            work += maker.inputs[::-1]


def _is_inside(op: Op) -> bool:
    """Whether an op is a Concat that only another one along the same axis reads, once."""
    v = op.outputs[0]
    if op.type != "Concat" or op.domain or len(v.consumers) != 1 or op.graph.is_output(v) or v in op.graph.pinned:
        return False
    (user,) = v.consumers
    is_merged = user.type == "Concat" and not user.domain and user.graph is op.graph and same_axis(op, user)
    return is_merged and len(user.positions_of(v)) == 1


def same_axis(a: Op, b: Op) -> bool:
    """Whether two ops on values of one rank work along the same axis; False where that is unknown."""
    first, second = written_axis(a), written_axis(b)
    if first == second or (first < 0) == (second < 0):
        return first == second
    shape = a.outputs[0].known_shape
    return shape is not None and first % len(shape) == second % len(shape)


def written_axis(op: Op) -> int:
    """The axis of a Concat, Split or Gather as it is written."""
    return int(op.attr("axis", 1 if op.type == "Concat" else 0))


@cancel_rule(lambda g, xs, concat: g.Concat(*xs) @ concat)
def cancel_split_concat(g: RewriteBuilder, xs: Values, concat: Op) -> Value:
    """Concat(Split(x)) => x, of all its outputs in order, also among others"""
    inputs, at = list[Value](), 0
    while at < len(xs):
        split = _split_at(xs, at, concat)
        inputs.append(xs[at] if split is None else operand(split))
        at += 1 if split is None else len(split.outputs)
    require(inputs != list(xs), "no Split has all its outputs among the inputs, in order")
    return inputs[0] if len(inputs) == 1 else g.Concat(*inputs, axis=written_axis(concat))


def _split_at(xs: Values, at: int, concat: Op) -> Op | None:
    """The Split whose outputs are the inputs of a Concat from a position on."""
    maker = concat.graph.producer(xs[at])
    if maker is None or maker.type != "Split" or maker.domain or len(maker.outputs) > len(xs) - at:
        return None
    has_all = all(xs[at + i] is v for i, v in enumerate(maker.outputs))
    return maker if has_all and same_axis(maker, concat) else None


@cancel_rule(lambda g, x, rest, first, concat: g.Concat(g.Slice(x, ...) @ first, *rest) @ concat)
def cancel_slices_concat(g: RewriteBuilder, x: Value, rest: Values, first: Op, concat: Op) -> Value:
    """Concat(x[:i], x[i:j], x[j:]) => x"""
    makers = [first, *(maker for v in rest if (maker := concat.graph.producer(v)) is not None)]
    require(len(makers) == len(concat.inputs), "an input is not computed in this graph")
    require(all(m.type == "Slice" and not m.domain and m.inputs[0] is x for m in makers), "not all are slices of x")
    axis = written_axis(concat) % x.rank
    ranges = [required_slice_ranges(m, x) for m in makers]
    single = all(list(r) == [axis] and r[axis].step == 1 for r in ranges)
    require(single, "a slice is along another axis or has a step")
    cuts, extent = [r[axis] for r in ranges], x.shape[axis]
    if isinstance(extent, int):
        cuts = [SliceRange(r.start, r.stop) for r in (c.indices(extent) for c in cuts)]
    last = extent if isinstance(extent, int) else INT32_MAX
    require(cuts[0].start == 0 and cuts[-1].end >= last, "the slices do not cover the axis")
    inner = [c.start for c in cuts[1:]]
    require(inner == [c.end for c in cuts[:-1]] and inner == sorted(inner), "the slices are not adjacent")
    require(not inner or (inner[0] >= 0) == (inner[-1] >= 0), "the slices may overlap")
    return x


MAX_CONCAT_INPUTS = 256  # pieces that are searched for the indices, anew for each op that reads the Concat


@bypass_rule(lambda g, xs, concat, split: g.Split(g.Concat(*xs) @ concat, ...) @ split)
def bypass_split_of_concat(g: RewriteBuilder, xs: Values, concat: Op, split: Op) -> tuple[Value, ...]:
    """Split(Concat(a, b, c)) => a, b, c, of the same sizes"""
    require(len(xs) == len(split.outputs) and same_axis(concat, split), "the pieces or the axes differ")
    axis = written_axis(concat) % xs[0].rank
    extents = [v.shape[axis] for v in xs]
    sizes = constant_numbers(split, "split")
    if sizes is None:
        require(all(same_extent(extents[0], e) for e in extents), "the even split differs from the inputs")
    else:
        require(same_shape(tuple(extents), tuple(sizes)), "the sizes differ")
    # Each output of the graph is an Identity if its replacement has a name to keep.
    require(sum(map(split.graph.is_output, split.outputs)) <= 1, "several pieces are graph outputs")
    return xs


@bypass_rule(lambda g, xs, concat, op: g.Slice(g.Concat(*xs) @ concat, ...) @ op)
def bypass_slice_of_concat(g: RewriteBuilder, xs: Values, concat: Op, op: Op) -> Value:
    """Slice(Concat(a, b)) => Slice(b), or b, where it takes nothing of a"""
    whole = concat.outputs[0]
    cuts = required_slice_ranges(op, whole)
    axis = written_axis(concat) % whole.rank
    require(axis in cuts, "the slice is along another axis")
    c, extent = cuts[axis], whole.shape[axis]
    rest = {a: c for a, c in cuts.items() if a != axis}
    if not isinstance(extent, int):
        require(c.start >= 0 and c.step > 0 and c.end >= 0, "the extent is unknown")
        if c.end >= INT32_MAX:  # from within the last piece to the end
            require(len(xs) <= MAX_CONCAT_INPUTS, "the Concat has too many inputs")
            start = c.start - sum(known_extent(v, axis) for v in xs[:-1])
            require(start >= 0, "the result spans several inputs")
            cut = SliceRange(start, c.end, c.step)
            return build_slice(g, xs[-1], rest if cut.takes_all(None) else {**rest, axis: cut})
        extent = c.end  # no more than that is looked at
    taken = c.indices(extent)
    require(len(taken) > 0, "the result is empty")
    piece, offset = input_holding(xs, axis, min(taken[0], taken[-1]), max(taken[0], taken[-1]))
    new = range_of_indices(range(taken.start - offset, taken.stop - offset, taken.step), known_extent(piece, axis))
    return build_slice(g, piece, rest if new is None else {**rest, axis: new})


@bypass_rule(lambda g, xs, i, concat, op: g.Gather(g.Concat(*xs) @ concat, g.const(i)) @ op)
def bypass_gather_of_concat(g: RewriteBuilder, xs: Values, i: Value, concat: Op, op: Op) -> Value:
    """Gather(Concat(a, b), i) => Gather(b, i - len(a)), where all indices are of b"""
    require_gatherable(concat.outputs[0])
    require(same_axis(concat, op), "the axes differ")
    axis = written_axis(concat) % concat.outputs[0].rank
    extent = concat.outputs[0].shape[axis]
    indices = i.const.astype(np.int64)
    require(indices.size > 0, "the result is empty")
    if isinstance(extent, int):
        indices = np.where(indices < 0, indices + extent, indices)
    require(int(indices.min()) >= 0, "an index is negative and the extent is unknown")
    piece, offset = input_holding(xs, axis, int(indices.min()), int(indices.max()))
    size, indices = piece.shape[axis], indices - offset
    if indices.ndim == 0 and size == 1:
        return g.Squeeze(piece, axes=[axis])
    if indices.ndim == 1 and indices.tolist() == list(range(indices.size)) and size == indices.size:
        return piece
    return g.Gather(piece, g.const(indices, like=i), axis=axis)


def input_holding(xs: Values, axis: int, first: int, last: int) -> tuple[Value, int]:
    """The input of a Concat that holds all indices from `first` to `last`, and its offset; else declines."""
    require(len(xs) <= MAX_CONCAT_INPUTS, "the Concat has too many inputs")
    begin = 0
    for v in xs:
        extent = known_extent(v, axis)
        if first < begin + extent:
            require(last < begin + extent, "the result spans several inputs")
            return v, begin
        begin += extent
    raise MatchFailure("an index is out of range")
