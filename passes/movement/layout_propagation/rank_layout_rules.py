"""Ops that take axes away or add some: reductions, Squeeze, Unsqueeze, Gather, Reshape, Flatten."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ....core import require
from ....core.inference.input_queries import axis_of, counted
from ...support.dtypes import FLOATS
from ...support.operand_queries import axes_of, operand
from .axis_groups import regrouped
from .layout import Layout, ranked
from .layout_rewrite import Asked, Move, relocated, rewritten

REDUCTIONS = frozenset({
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
})  # fmt: skip


def without(layout: Layout, gone: Collection[int]) -> Layout:
    """The layout of what is left when axes are taken away."""
    return ranked([axis for axis in layout if axis not in gone])


def including(layout: Layout, new: Collection[int]) -> Layout:
    """The layout of what has `new` axes besides: each is held behind the axis that it stands behind."""
    rank = len(layout) + len(new)
    old = [axis for axis in range(rank) if axis not in new]
    full = [old[axis] for axis in layout]
    for axis in sorted(new):
        full.insert(full.index(axis - 1) + 1 if axis else 0, axis)
    return tuple(full)


def reduction(asked: Asked) -> Move:
    """Reductions over constant axes."""
    op = asked.op
    exact = operand(op, 0).dtype not in FLOATS
    # onnxruntime's answer to a NaN depends on where in memory it lies.
    require(exact or op.type not in {"ReduceMax", "ReduceMin"}, "which of its operands wins depends on the layout")
    rank = operand(op, 0).rank
    axes = axes_of(op)
    keeps = bool(op.attr("keepdims", 1))
    if not axes:
        require(not op.attr("noop_with_empty_axes", 0) and asked.at == 0, "it reduces nothing")
        return asked.moved({0: asked.layout}, {}, exact=exact)
    gone = counted(axes, rank)
    inner = asked.layout if keeps or asked.at == 0 else including(asked.layout, gone)
    asked.same_rank()
    moved = rewritten(op, "axes", 1, sorted(relocated(gone, inner)))
    return asked.moved({0: inner}, {0: inner if keeps else without(inner, gone)}, exact=exact, **moved)


def arg_reduction(asked: Asked) -> Move:
    """ArgMax and ArgMin."""
    op = asked.op
    asked.same_rank()
    gone = axis_of(op, operand(op, 0).rank)
    keeps = bool(op.attr("keepdims", 1))
    inner = asked.layout if keeps or asked.at == 0 else including(asked.layout, [gone])
    attrs = {"axis": relocated([gone], inner)[0]}
    return asked.moved({0: inner}, {0: inner if keeps else without(inner, [gone])}, attrs=attrs)


def squeeze(asked: Asked) -> Move:
    """Squeeze of constant axes."""
    op = asked.op
    asked.same_rank()
    axes = axes_of(op)
    require(axes, "it has no axes")
    gone = counted(axes or [], operand(op, 0).rank)
    inner = asked.layout if asked.at == 0 else including(asked.layout, gone)
    moved = rewritten(op, "axes", 1, sorted(relocated(gone, inner)))
    return asked.moved({0: inner}, {0: without(inner, gone)}, **moved)


def unsqueeze(asked: Asked) -> Move:
    """Unsqueeze by constant axes."""
    op = asked.op
    asked.same_rank()
    axes = axes_of(op)
    require(axes, "it has no axes")
    new = counted(axes or [], op.outputs[0].rank)
    outer = including(asked.layout, new) if asked.at == 0 else asked.layout
    moved = rewritten(op, "axes", 1, sorted(relocated(new, outer)))
    return asked.moved({0: without(outer, new)}, {0: outer}, **moved)


def gather(asked: Asked) -> Move:
    """Gather along an axis: the axes of the indices stand in its place."""
    op = asked.op
    asked.same_rank()
    axis = axis_of(op, operand(op, 0).rank)
    count = operand(op, 1).rank
    block = range(axis, axis + count)
    if asked.at == 0:
        inner = asked.layout
        at = inner.index(axis)
        shifted = [a + (count - 1) * (a > axis) for a in inner]
        outer = (*shifted[:at], *block, *shifted[at + 1 :])
    else:
        outer = asked.layout
        inner = _before_gather(outer, axis, count)
    # Taking rows from a table copies each at once; one that is turned round would give number by number.
    is_lookup = operand(op, 0).is_const and count > 0 and axis < len(inner) - 1
    require(not is_lookup or inner[-1] != axis, "it takes rows from a table")
    return asked.moved({0: inner}, {0: outer}, attrs={"axis": inner.index(axis)})


def _before_gather(outer: Layout, axis: int, count: int) -> Layout:
    """The layout of the data, given that of what Gather takes from it by indices with `count` dims."""
    block = tuple(range(axis, axis + count))
    if not count:
        return including(outer, [axis])
    at = outer.index(axis)
    require(outer[at : at + count] == block, "the axes of the indices do not stay together")
    rest = (*outer[:at], axis, *outer[at + count :])
    return tuple(a - (count - 1) * (a > axis) for a in rest)


def reshape(asked: Asked) -> Move:
    """Reshape to known extents, where what it splits and merges are axes that stay together."""
    op = asked.op
    asked.same_rank()
    before, after = operand(op, 0).shape, op.outputs[0].shape
    inner, outer = regrouped(before, after, asked.layout, forward=asked.at == 0)
    extents = [d if isinstance(d, int) else -1 for d in after]
    require(0 not in extents and extents.count(-1) <= 1, "its extents cannot be written down")
    return asked.moved({0: inner}, {0: outer}, constants={1: np.asarray([extents[a] for a in outer], np.int64)})


def flatten(asked: Asked) -> Move:
    """Flatten, where the axes that it merges stay together, in order."""
    op, layout = asked.op, asked.same_rank((0,), ())
    rank = len(layout)
    start = op.attr("axis", 1)
    require(-rank <= start <= rank, "its axis is out of range")
    start += rank * (start < 0)
    x = operand(op, 0).shape
    held = [a for a in layout if x[a] != 1]
    require(held == sorted(held), "the axes that it merges change their order")
    head = sum(a < start for a in held)
    at = layout.index(held[head]) if head < len(held) else rank
    return asked.moved({0: layout}, {}, attrs={"axis": at})
