"""Ops that take axes away or add some: reductions, Squeeze, Unsqueeze, Gather, Reshape, Flatten."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ....core import require
from ....core.inference.input_queries import normalize_axes, normalized_axis
from ....core.ir.dtypes import FLOATS
from ...support.operand_queries import constant_integers, operand
from .axis_groups import reshape_layouts
from .layout import Layout, renumbered
from .layout_rewrite import LayoutRequest, LayoutRewrite, attribute_or_constant, axes_in_layout


def layout_without(layout: Layout, gone: Collection[int]) -> Layout:
    """A layout without some axes."""
    return renumbered([axis for axis in layout if axis not in gone])


def layout_with(layout: Layout, new: Collection[int]) -> Layout:
    """A layout with `new` axes, each stored after the axis that precedes it."""
    rank = len(layout) + len(new)
    old = [axis for axis in range(rank) if axis not in new]
    full = [old[axis] for axis in layout]
    for axis in sorted(new):
        full.insert(full.index(axis - 1) + 1 if axis else 0, axis)
    return tuple(full)


def reduction(request: LayoutRequest) -> LayoutRewrite:
    """Reductions over constant axes."""
    op = request.op
    exact = operand(op, 0).dtype not in FLOATS
    # onnxruntime's answer to a NaN depends on where in memory it lies.
    require(exact or op.type not in {"ReduceMax", "ReduceMin"}, "the result for NaN depends on the layout")
    rank = operand(op, 0).rank
    axes = constant_integers(op)
    keeps = bool(op.attr("keepdims", 1))
    if not axes:
        require(not op.attr("noop_with_empty_axes", 0) and request.index == 0, "the op reduces no axis")
        return request.rewrite({0: request.layout}, {}, exact=exact)
    gone = normalize_axes(axes, rank)
    inner = request.layout if keeps or request.index == 0 else layout_with(request.layout, gone)
    request.layout_at()
    moved = attribute_or_constant(op, "axes", 1, sorted(axes_in_layout(gone, inner)))
    return request.rewrite({0: inner}, {0: inner if keeps else layout_without(inner, gone)}, exact=exact, **moved)


def arg_reduction(request: LayoutRequest) -> LayoutRewrite:
    """ArgMax and ArgMin."""
    op = request.op
    request.layout_at()
    gone = normalized_axis(op, operand(op, 0).rank)
    keeps = bool(op.attr("keepdims", 1))
    inner = request.layout if keeps or request.index == 0 else layout_with(request.layout, [gone])
    attrs = {"axis": axes_in_layout([gone], inner)[0]}
    return request.rewrite({0: inner}, {0: inner if keeps else layout_without(inner, [gone])}, attrs=attrs)


def squeeze(request: LayoutRequest) -> LayoutRewrite:
    """Squeeze of constant axes."""
    op = request.op
    request.layout_at()
    axes = constant_integers(op)
    require(axes, "the op has no axes")
    gone = normalize_axes(axes or [], operand(op, 0).rank)
    inner = request.layout if request.index == 0 else layout_with(request.layout, gone)
    moved = attribute_or_constant(op, "axes", 1, sorted(axes_in_layout(gone, inner)))
    return request.rewrite({0: inner}, {0: layout_without(inner, gone)}, **moved)


def unsqueeze(request: LayoutRequest) -> LayoutRewrite:
    """Unsqueeze by constant axes."""
    op = request.op
    request.layout_at()
    axes = constant_integers(op)
    require(axes, "the op has no axes")
    new = normalize_axes(axes or [], op.outputs[0].rank)
    outer = layout_with(request.layout, new) if request.index == 0 else request.layout
    moved = attribute_or_constant(op, "axes", 1, sorted(axes_in_layout(new, outer)))
    return request.rewrite({0: layout_without(outer, new)}, {0: outer}, **moved)


def gather(request: LayoutRequest) -> LayoutRewrite:
    """Gather along an axis, which the axes of the indices replace."""
    op = request.op
    request.layout_at()
    axis = normalized_axis(op, operand(op, 0).rank)
    count = operand(op, 1).rank
    block = range(axis, axis + count)
    if request.index == 0:
        inner = request.layout
        at = inner.index(axis)
        shifted = [a + (count - 1) * (a > axis) for a in inner]
        outer = (*shifted[:at], *block, *shifted[at + 1 :])
    else:
        outer = request.layout
        inner = _before_gather(outer, axis, count)
    # Taking rows from a table copies each at once; a transposed one would copy single numbers.
    is_lookup = operand(op, 0).is_const and count > 0 and axis < len(inner) - 1
    require(not is_lookup or inner[-1] != axis, "it is a lookup of rows")
    return request.rewrite({0: inner}, {0: outer}, attrs={"axis": inner.index(axis)})


def _before_gather(outer: Layout, axis: int, count: int) -> Layout:
    """The layout of the data of a Gather, given that of its result; the indices have `count` dims."""
    block = tuple(range(axis, axis + count))
    if not count:
        return layout_with(outer, [axis])
    at = outer.index(axis)
    require(outer[at : at + count] == block, "the axes of the indices do not stay together")
    rest = (*outer[:at], axis, *outer[at + count :])
    return tuple(a - (count - 1) * (a > axis) for a in rest)


def reshape(request: LayoutRequest) -> LayoutRewrite:
    """Reshape to known extents, where merged and split axes stay adjacent."""
    op = request.op
    request.layout_at()
    before, after = operand(op, 0).shape, op.outputs[0].shape
    inner, outer = reshape_layouts(before, after, request.layout, forward=request.index == 0)
    extents = [d if isinstance(d, int) else -1 for d in after]
    require(0 not in extents and extents.count(-1) <= 1, "the target shape is not constant")
    return request.rewrite({0: inner}, {0: outer}, constants={1: np.asarray([extents[a] for a in outer], np.int64)})


def flatten(request: LayoutRequest) -> LayoutRewrite:
    """Flatten, where the axes that it merges stay together, in order."""
    op, layout = request.op, request.layout_at((0,), ())
    rank = len(layout)
    start = op.attr("axis", 1)
    require(-rank <= start <= rank, "the axis is out of range")
    start += rank * (start < 0)
    x = operand(op, 0).shape
    held = [a for a in layout if x[a] != 1]
    require(held == sorted(held), "the order of the merged axes changes")
    head = sum(a < start for a in held)
    at = layout.index(held[head]) if head < len(held) else rank
    return request.rewrite({0: layout}, {}, attrs={"axis": at})
