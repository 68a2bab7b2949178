"""Removal of gathers and scatters whose constant indices are the identity."""

from __future__ import annotations

import numpy as np

from ...core import EXACT, Build, RulePass, Value, require, rule
from ..support.operand_queries import Array


@rule(lambda g, x, indices, axis: g.Gather(x, g.const(indices), axis=axis), contract=EXACT)
def drop_no_op_gather(g: Build, x: Value, indices: Value, axis: int) -> Value:
    """Gather(x, 0 1 2 ...) => x"""
    extent = static_extent(x, axis)
    require(indices.shape == (extent,), "the number of indices is not the extent")
    require(are_indices_equal(indices, np.arange(extent), extent), "the indices are not in order")
    return x


@rule(
    lambda g, x, indices, updates, axis: g.one_of("GatherElements", "Scatter", "ScatterElements")(
        x, g.const(indices), *updates, axis=axis
    ),
    contract=EXACT,
)
def drop_identity_element_indices(g: Build, x: Value, indices: Value, updates: tuple[Value, ...], axis: int) -> Value:
    """GatherElements(x, identity) => x, ScatterElements(x, identity, updates) => updates"""
    require_identity_element_indices(indices, x, axis)
    return (*updates, x)[0]


@rule(lambda g, x, indices, updates: g.one_of("GatherND", "ScatterND")(x, g.const(indices), *updates), contract=EXACT)
def drop_identity_nd_indices(g: Build, x: Value, indices: Value, updates: tuple[Value, ...]) -> Value:
    """GatherND(x, identity) => x, ScatterND(x, identity, updates) => updates"""
    require_identity_nd_indices(indices, x)
    return (*updates, x)[0]


@rule(lambda g, x, condition, axis: g.Compress(x, g.const(condition), axis=axis), contract=EXACT)
def drop_no_op_compress(g: Build, x: Value, condition: Value, axis: int | None) -> Value:
    """Compress(x, true true ...) => x"""
    require(axis is not None or x.rank == 1, "without an axis, Compress flattens x")
    require(condition.shape == (static_extent(x, axis or 0),), "the condition may be shorter than the axis")
    require(bool(condition.const.all()), "the condition is not true throughout")
    return x


def static_extent(x: Value, axis: int) -> int:
    """The extent of a dim; declines where it is not a number."""
    require(-x.rank <= axis < x.rank, f"there is no axis {axis}")
    extent = x.shape[axis]
    if not isinstance(extent, int):
        extent = -1
    require(extent >= 0, f"the extent along axis {axis} is not fixed")
    return extent


def require_identity_element_indices(indices: Value, x: Value, axis: int) -> None:
    """Decline unless `indices` holds, for each element of `x`, its own index along `axis`."""
    shape, extent = x.static_shape, static_extent(x, axis)
    require(indices.shape == shape, "the shape of the indices differs from that of x")
    order = np.arange(extent).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    require(are_indices_equal(indices, order, extent), "an index is not the element's own position")


def require_identity_nd_indices(indices: Value, x: Value) -> None:
    """Decline unless `indices` (GatherND, ScatterND) lists all entries along the leading axes, in order."""
    require(indices.rank >= 2, "the indices have no dims")
    depth = indices.rank - 1
    require(depth <= x.rank, "the indices have more dims than x")
    extents = tuple(static_extent(x, i) for i in range(depth))
    require(indices.shape == (*extents, depth), "the indices do not cover all entries")
    order = np.moveaxis(np.indices(extents), 0, -1)
    require(are_indices_equal(indices, order, np.array(extents)), "an index is not the entry's own position")


def are_indices_equal(indices: Value, order: Array, extents: Array | int) -> bool:
    """Whether indices, counted from the end where negative, equal `order`."""
    given = indices.const
    return bool((np.where(given < 0, given + extents, given) == order).all())


DROP_NO_OP_INDEXING = RulePass(
    "drop-no-op-indexing",
    (drop_no_op_gather, drop_identity_element_indices, drop_identity_nd_indices, drop_no_op_compress),
)
