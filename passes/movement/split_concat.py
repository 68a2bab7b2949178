"""Reads of a Concat replaced by reads of one of its inputs."""

from __future__ import annotations

import numpy as np

from ...core import EXACT, Build, Declined, Op, RulePass, Value, require, rule, same_extent
from ..support.operand_queries import Inputs, constant_integers
from .concats import same_axis, written_axis
from .slice_ranges import INT32_MAX, SliceRange, build_slice, range_of_indices, required_slice_ranges

MAX_CONCAT_INPUTS = 256  # pieces among which the one is looked for, anew for each op that reads the Concat


@rule(lambda g, xs, concat, split: g.Split(g.Concat(*xs) @ concat, ...) @ split, shared=True, contract=EXACT)
def bypass_split_of_concat(g: Build, xs: Inputs, concat: Op, split: Op) -> tuple[Value, ...]:
    """Split(Concat(a, b, c)) => a, b, c, of the same sizes"""
    require(len(xs) == len(split.outputs) and same_axis(concat, split), "the pieces or the axes differ")
    pieces = tuple(v for v in xs if v is not None)
    axis = written_axis(concat) % pieces[0].rank
    extents = [v.shape[axis] for v in pieces]
    sizes = constant_integers(split, "split")
    if sizes is None:
        require(all(same_extent(extents[0], e) for e in extents), "the even split differs from the inputs")
    else:
        same = len(sizes) == len(xs) and all(map(same_extent, extents, sizes))
        require(same, "the sizes differ")
    # Each output of the graph is an Identity if what stands for it has a name to keep.
    require(sum(map(split.graph.is_output, split.outputs)) <= 1, "several pieces are graph outputs")
    return pieces


@rule(lambda g, xs, concat, op: g.Slice(g.Concat(*xs) @ concat, ...) @ op, shared=True, contract=EXACT)
def bypass_slice_of_concat(g: Build, xs: Inputs, concat: Op, op: Op) -> Value:
    """Slice(Concat(a, b)) => Slice(b), or b, where it takes nothing of a"""
    whole = concat.outputs[0]
    cuts = required_slice_ranges(op, whole)
    axis = written_axis(concat) % whole.rank
    require(axis in cuts, "the slice is along another axis")
    c, extent = cuts[axis], whole.shape[axis]
    if not isinstance(extent, int):
        require(c.start >= 0 and c.step > 0 and c.end >= 0, "the extent is unknown")
        if c.end >= INT32_MAX:
            return _slice_last_input(g, xs, axis, cuts)
        extent = c.end  # no more than that is looked at
    taken = c.indices(extent)
    require(len(taken) > 0, "the result is empty")
    piece, offset = input_holding(xs, axis, min(taken[0], taken[-1]), max(taken[0], taken[-1]))
    return _slice_input(g, piece, axis, cuts, range(taken.start - offset, taken.stop - offset, taken.step))


@rule(lambda g, xs, i, concat, op: g.Gather(g.Concat(*xs) @ concat, g.const(i)) @ op, shared=True, contract=EXACT)
def bypass_gather_of_concat(g: Build, xs: Inputs, i: Value, concat: Op, op: Op) -> Value:
    """Gather(Concat(a, b), i) => Gather(b, i - len(a)), where all indices are of b"""
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


def input_holding(xs: Inputs, axis: int, first: int, last: int) -> tuple[Value, int]:
    """The input of a Concat that holds all indices from `first` to `last`, and its offset; else declines."""
    require(len(xs) <= MAX_CONCAT_INPUTS, "the Concat has too many inputs")
    begin = 0
    for v in xs:
        extent = v.shape[axis] if v is not None else None
        require(isinstance(extent, int), "the extents of the inputs are unknown")
        assert v is not None
        assert isinstance(extent, int)
        if first < begin + extent:
            require(last < begin + extent, "the result spans several inputs")
            return v, begin
        begin += extent
    raise Declined("an index is out of range")


def _slice_last_input(g: Build, xs: Inputs, axis: int, cuts: dict[int, SliceRange]) -> Value:
    """A Slice from within the last piece to the end."""
    require(len(xs) <= MAX_CONCAT_INPUTS, "the Concat has too many inputs")
    extents = [v.shape[axis] for v in xs[:-1] if v is not None]
    numbers = [e for e in extents if isinstance(e, int)]
    start = cuts[axis].start - sum(numbers)
    last = xs[-1]
    require(len(numbers) == len(extents) and start >= 0, "the result spans several inputs")
    assert last is not None
    rest = {**cuts, axis: SliceRange(start, cuts[axis].end, cuts[axis].step)}
    if rest[axis].start == 0 and rest[axis].step == 1:
        del rest[axis]
    return build_slice(g, last, rest)


def _slice_input(g: Build, piece: Value, axis: int, cuts: dict[int, SliceRange], taken: range) -> Value:
    extent = piece.shape[axis]
    assert isinstance(extent, int)
    new = range_of_indices(taken, extent)
    rest = {a: c for a, c in cuts.items() if a != axis}
    return build_slice(g, piece, rest if new is None else {**rest, axis: new})


BYPASS_CONCATS = RulePass("bypass-concats", (bypass_split_of_concat, bypass_slice_of_concat, bypass_gather_of_concat))
