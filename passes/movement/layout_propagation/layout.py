"""Layouts: the order in which the axes of a value are stored. `(0, 3, 1, 2)` stores its axis 3 second."""

from __future__ import annotations

from collections.abc import Sequence

from ....core import Op, Value

Layout = tuple[int, ...]


def inverse(layout: Layout) -> Layout:
    """The position of each axis of the value in the layout."""
    places = [0] * len(layout)
    for place, axis in enumerate(layout):
        places[axis] = place
    return tuple(places)


def compose(first: Sequence[int], second: Sequence[int]) -> Layout:
    """The perm of Transpose(Transpose(x, first), second)."""
    return tuple(first[i] for i in second)


def is_identity(layout: Sequence[int]) -> bool:
    """Whether nothing is moved."""
    return all(place == axis for place, axis in enumerate(layout))


def renumbered(order: Sequence[int]) -> Layout:
    """`order` with its numbers replaced by 0, 1, 2 ... in their order of size: the layout of the axes that are left."""
    rank_of = {axis: i for i, axis in enumerate(sorted(order))}
    return tuple(rank_of[axis] for axis in order)


def perm_of(transpose: Op) -> Layout | None:
    """The perm of a Transpose; None where its default is unknown, or where it is not a permutation."""
    x: Value | None = transpose.input(0)
    perm = transpose.attr("perm")
    if perm is None:
        shape = x.known_shape if x is not None else None
        return None if shape is None else tuple(range(len(shape)))[::-1]
    return tuple(perm) if sorted(perm) == list(range(len(perm))) else None
