"""Joining with nothing, and splitting into one."""

from __future__ import annotations

from ...core import EXACT, Build, Op, RulePass, Value, require, rule, same_extent
from ..operands import axes_of


@rule(lambda g, xs, concat: g.Concat(*xs) @ concat, contract=EXACT)
def drop_empty_pieces(g: Build, xs: tuple[Value, ...], concat: Op) -> Value:
    """Concat(x, nothing, y) => Concat(x, y), and Concat(x) => x"""
    axis = concat.attr("axis")
    require(axis is not None, "its axis is not given")
    kept = [x for x in xs if not is_empty_along(x, axis)] or [xs[0]]
    require(len(kept) < len(xs) or len(xs) == 1, "no piece is known to be empty")
    return kept[0] if len(kept) == 1 else g.Concat(*kept, axis=axis)


@rule(lambda g, x, split, sizes=None: g.Split(x, sizes) @ split, contract=EXACT)
def drop_split_into_one(g: Build, x: Value, split: Op, sizes: Value | None) -> tuple[Value | None, ...]:
    """Split(x) => x, where it is one piece, or where the others are empty and not read"""
    if len(split.outputs) == 1:
        return (x,)
    extents = axes_of(split, "split") or []
    require(len(extents) == len(split.outputs), "its pieces are of unknown extent")
    require(sum(map(bool, extents)) == 1, "more than one piece may hold something")
    return tuple(x if extent else None for extent in extents)


def is_empty_along(x: Value, axis: int) -> bool:
    """Whether `x` is known to have extent 0 along an axis."""
    shape = x.known_shape
    return shape is not None and -len(shape) <= axis < len(shape) and same_extent(shape[axis], 0)


DROP_IDLE_PIECES = RulePass("drop-idle-pieces", (drop_empty_pieces, drop_split_into_one))
