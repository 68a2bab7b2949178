"""Removal of gathers and scatters whose indices are built from Ranges, as in exported masks."""

from __future__ import annotations

from functools import partial

from ...core import EXACT, Op, RewriteBuilder, Value, require, rule, same_extent
from ...core.ir.expressions import Dim
from ...core.operators.operands import normalized_axis
from ..support.operand_queries import Inputs, Values, constant_numbers, normalized_axes, operand, required_producer

MAX_DEPTH = 8  # ops between a Range and the index it becomes
range_rule = partial(rule, contract=EXACT, allow_other_uses=True, group="drop-range-gathers")


@range_rule(
    lambda g, x, columns, rows, place, n, flat, gather: (
        g.Gather(
            g.one_of("Flatten", "Reshape")(x, ...) @ flat,
            g.Add(g.Range(*columns), g.Mul(g.Unsqueeze(g.Range(*rows), axes=place), n)),
        )
        @ gather
    )
)
def gather_of_ranges_to_unsqueeze(
    g: RewriteBuilder, x: Value, columns: Inputs, rows: Inputs, place: list[int], n: Value, flat: Op, gather: Op
) -> Value:
    """Gather(Flatten(x), range(n) + range(m)[:, None] * n) => Unsqueeze(x), of x with m rows of n columns"""
    require(x.rank == 2 and gather.attr("axis", 0) == 0, "x is not a matrix gathered along axis 0")
    column = flat.outputs[0].shape
    require(len(column) == 1 or (len(column) == 2 and column[1] == 1), "the matrix is not flattened to one column")
    m, width = x.shape
    covers = same_extent(_range_length(columns), width) and same_extent(_range_length(rows), m)
    require(covers, "the range does not cover the axis")
    require(same_extent(_known_element(n), width), "the row step is not the width")
    rank = 1 + len(place)
    ones = sorted(a % rank for a in place)
    broadcast = len(set(ones)) == len(ones) and rank - 1 in ones
    require(broadcast, "the row indices do not broadcast against the column indices")
    free = [a for a in ones if a != rank - 1]
    return g.Unsqueeze(x, axes=free + ([rank] if len(column) == 2 else []))


def _range_length(ends: Inputs) -> Dim:
    """The limit of a Range from 0 in steps of 1."""
    first, last, step = (_known_element(v) for v in ends)
    require((first, step) == (0, 1), "the range is not 0, 1, 2, ...")
    return last


def _known_element(v: Value | None) -> Dim:
    """The one element of a value; None where it is unknown."""
    found = v.known_elements if v is not None else None
    return found[0] if found is not None and len(found) == 1 else None


@range_rule(lambda g, x, i, gather: g.Gather(x, i) @ gather)
def drop_gather_of_full_range(g: RewriteBuilder, x: Value, i: Value, gather: Op) -> Value:
    """Gather(x, range(n)) => x, of n entries along the axis"""
    require(i.rank == 1, "the indices are not a vector")
    _range_axis(i, x.shape[normalized_axis(gather, x.rank)])
    return x


@range_rule(lambda g, x, pieces, gather: g.GatherND(x, g.Concat(*pieces, axis=-1)) @ gather)
def gather_nd_of_ranges_to_unsqueeze(g: RewriteBuilder, x: Value, pieces: Values, gather: Op) -> Value:
    """GatherND(x, (range(m)[:, None], range(n))) => Unsqueeze(x), of x with m rows of n columns"""
    require(len(pieces) == x.rank == 2 and not gather.attr("batch_dims", 0), "x is not an indexed matrix")
    out = gather.outputs[0].shape
    single = all(v.shape[-1:] == (1,) and v.rank == len(out) + 1 for v in pieces)
    require(single, "an index is not single")
    axes = [_range_axis(v, extent) for v, extent in zip(pieces, x.shape, strict=True)]
    require(axes[0] < axes[1] < len(out), "the axes of rows and columns are not in order")
    require(all(same_extent(out[a], d) for a, d in zip(axes, x.shape, strict=True)), "the indices do not cover x")
    ones = [a for a in range(len(out)) if a not in axes]
    require(all(out[a] == 1 for a in ones), "elements are gathered more than once")
    return g.Unsqueeze(x, axes=ones) if ones else x


@range_rule(lambda g, x, i, updates, scatter: g.ScatterND(x, i, updates) @ scatter)
def scatter_nd_of_ranges_to_updates(g: RewriteBuilder, x: Value, i: Value, updates: Value, scatter: Op) -> Value:
    """ScatterND(x, range(n)[:, None], updates) => updates, of x with n rows; so with a range for each leading dim"""
    require(scatter.attr("reduction", "none") == "none", "the updates are combined with x")
    pieces = _joined_indices(i)
    require(0 < len(pieces) <= x.rank and i.rank == len(pieces) + 1, "the indices do not have a dim for each range")
    for axis, (v, extent) in enumerate(zip(pieces, x.shape, strict=False)):
        require(v.rank == i.rank and v.shape[-1] == 1, "an index is not single")
        require(same_extent(i.shape[axis], extent) and _range_axis(v, extent) == axis, "the ranges do not cover x")
    return updates


def _joined_indices(i: Value) -> list[Value]:
    """The values of which a Concat along the last axis makes indices; the indices themselves without one."""
    op = i.producer
    if op is None or op.domain or op.type != "Concat":
        return [i]
    require(op.attr("axis") in {-1, i.rank - 1}, "the ranges are not side by side")
    return [operand(op, j) for j in range(len(op.inputs))]


def _range_axis(v: Value, extent: Dim, far: int = MAX_DEPTH) -> int:
    """The axis along which `v` counts from 0 to `extent`; along all others it is the same."""
    require(far, "the index is not a Range")
    maker = required_producer(v, "Range", "Reshape", "Unsqueeze", "Expand")
    if maker.type == "Range":
        require(same_extent(_range_length(maker.inputs), extent), "the range does not cover the axis")
        return 0
    inner = operand(maker)
    axis = _range_axis(inner, extent, far - 1)
    if maker.type == "Reshape":
        kept = [a for a, d in enumerate(v.shape) if d != 1]
        require(inner.rank == 1 and len(kept) == 1 and same_extent(v.shape[kept[0]], extent), "the range is reshaped")
        return kept[0]
    if maker.type == "Expand":
        axis += v.rank - inner.rank
        require(same_extent(v.shape[axis], extent), "the axis of the range is broadcast")
        return axis
    new = normalized_axes(constant_numbers(maker) or [], v.rank)
    return [a for a in range(v.rank) if a not in new][axis]
