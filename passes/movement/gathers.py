"""Merging of Gathers with Gathers, Slices and reshapes."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from ...core import EXACT, Op, RewriteBuilder, Value, require, rule
from ...core.ir.expressions import as_integers
from ...core.operators.operands import normalized_axis
from ..support.operand_queries import are_in_range, inferred_shape, require_gatherable, same_shape
from .reshapes import RESHAPE_OPS, squeezed_axes
from .slices import INT32_MAX, INT64_MAX, required_slice_ranges

gather_rule = partial(rule, allow_other_uses=True, contract=EXACT, group="merge-gathers")
MAX_MERGED_INDICES = 1024  # indices that one Gather may have, however few the two had


@gather_rule(lambda g, x, i, j, inner, outer: g.Gather(g.Gather(x, g.const(i)) @ inner, g.const(j)) @ outer)
def merge_gathers(g: RewriteBuilder, x: Value, i: Value, j: Value, inner: Op, outer: Op) -> Value:
    """Gather(Gather(x, i), j) => Gather(x, i[j])"""
    require_gatherable(x)
    first, second = normalized_axis(inner, x.rank), normalized_axis(outer, inner.outputs[0].rank)
    along, given = second - first, i.static_shape
    require(0 <= along < len(given), "the axes differ")
    size = prod(given[:along]) * prod(j.static_shape) * prod(given[along + 1 :])
    require(size <= max(MAX_MERGED_INDICES, prod(given)), "the merged indices would be too many")
    require(are_in_range(j.const, given[along]), "an index is out of range")
    return g.Gather(x, g.const(np.take(i.const, j.const, axis=along), like=i), axis=first)


@rule(
    lambda g, x, i, gather, outer: g.one_of(*RESHAPE_OPS)(g.Gather(x, g.const(i)) @ gather, ...) @ outer,
    contract=EXACT,
    group="reshape-indices",
)
def reshape_indices(g: RewriteBuilder, x: Value, i: Value, gather: Op, outer: Op) -> Value:
    """Unsqueeze(Gather(x, i), a) => Gather(x, Unsqueeze(i, a)); so any reshape of the gathered axis"""
    axis = normalized_axis(gather, x.rank)
    size, made = prod(i.static_shape), inferred_shape(outer)
    end = len(made) - (x.rank - 1 - axis)
    around = (*made[:axis], *made[end:])
    require(size > 0 and end >= axis, "the op merges axes")
    require(same_shape(around, (*x.shape[:axis], *x.shape[axis + 1 :])), "it changes other axes")
    shape = as_integers(made[axis:end]) or ()
    require(prod(shape) == size, "it changes other axes")
    return g.Gather(x, g.const(i.const.reshape(shape), like=i), axis=axis)


@rule(lambda g, x, inner, outer: g.Squeeze(g.Slice(x, ...) @ inner, ...) @ outer, contract=EXACT, group="merge-gathers")
def squeeze_of_slice_to_gather(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """Squeeze(x[i:i+1]) => Gather(x, i)"""
    require_gatherable(x)
    cuts = required_slice_ranges(inner, x)
    require(len(cuts) == 1, "the slice is along several axes")
    ((axis, cut),) = cuts.items()
    ends = {cut.start + 1} if cut.start != -1 else {INT32_MAX, INT64_MAX}
    require(cut.step == 1 and cut.end in ends, "it holds several elements")
    require(squeezed_axes(outer, inner.outputs[0]) == [axis], "another axis is removed")
    return g.Gather(x, g.const(np.array(cut.start, np.int64)), axis=axis)


@gather_rule(lambda g, x, i, inner, outer: g.Gather(g.Slice(x, ...) @ inner, g.const(i)) @ outer)
def gather_from_slice(g: RewriteBuilder, x: Value, i: Value, inner: Op, outer: Op) -> Value:
    """Gather(x[s:], i) => Gather(x, s + i)"""
    require_gatherable(x)
    cuts = required_slice_ranges(inner, x)
    axis = normalized_axis(outer, x.rank)
    require(list(cuts) == [axis], "the slice is along another axis")
    cut, extent = cuts[axis], x.shape[axis]
    indices = i.const.astype(np.int64)
    if isinstance(extent, int):
        taken = cut.indices(extent)
        require(are_in_range(indices, len(taken)), "an index is out of range")
        indices = taken.start + taken.step * np.where(indices < 0, indices + len(taken), indices)
    else:
        require(cut.start >= 0 and cut.step > 0, "the start of the slice is unknown")
        whole = cut.end >= INT32_MAX and cut.step == 1
        require(whole or bool((indices >= 0).all()), "the end of the slice is unknown")
        indices = np.where(indices < 0, indices, cut.start + cut.step * indices)
    return g.Gather(x, g.const(indices, like=i), axis=axis)


@gather_rule(lambda g, x, i, inner, outer: g.Slice(g.Gather(x, g.const(i)) @ inner, ...) @ outer)
def slice_indices(g: RewriteBuilder, x: Value, i: Value, inner: Op, outer: Op) -> Value:
    """Slice(Gather(x, i), a) => Gather(x, Slice(i, a)), along axes of i"""
    require_gatherable(x)
    axis, cuts, extents = normalized_axis(inner, x.rank), required_slice_ranges(outer, inner.outputs[0]), i.static_shape
    require(all(axis <= a < axis + len(extents) for a in cuts), "it slices another axis of x")
    require(prod(extents) <= MAX_MERGED_INDICES or len(i.consumers) == 1, "the indices would be stored twice")
    taken = i.const
    for a, cut in cuts.items():
        taken = np.take(taken, cut.indices(extents[a - axis]), axis=a - axis)
    return g.Gather(x, g.const(taken, like=i), axis=axis)
