"""Groups of axes that a Reshape merges or splits, and the layouts that follow."""

from __future__ import annotations

from ....core import require, same_extent
from ....core.ir.dims import Dim, Shape
from .layout import Layout

AxisGroups = list[tuple[list[int], list[int]]]


def group_axes(before: Shape, after: Shape) -> AxisGroups:
    """The axes before and after in the smallest groups with equal sizes; declines where those are unknown."""
    groups: AxisGroups = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and same_extent(before[i], after[j]):
            groups.append(([i], [j]))
            i, j = i + 1, j + 1
            continue
        old, new = _group_ends(before, after, i, j)
        groups.append((list(range(i, old)), list(range(j, new))))
        i, j = old, new
    return groups


def _group_ends(before: Shape, after: Shape, i: int, j: int) -> tuple[int, int]:
    """The ends of the shortest two runs of numbers that begin at `i` and `j` and have the same product."""
    old, new = i, j
    left = right = 1
    while old == i or new == j or left != right:
        if (left <= right or new == len(after)) and old < len(before):
            left *= _required_extent(before[old])
            old += 1
        elif new < len(after):
            right *= _required_extent(after[new])
            new += 1
        elif left == right and (old > i or new > j):
            break
        else:
            require(False, "the numbers of elements differ")
    return old, new


def _required_extent(d: Dim) -> int:
    require(isinstance(d, int) and d > 0, "an extent is unknown or 0")
    assert isinstance(d, int)
    return d


def reshape_layouts(before: Shape, after: Shape, layout: Layout, *, forward: bool) -> tuple[Layout, Layout]:
    """The layouts before and after a Reshape, given the first (`forward`) or the second of them.

    Each group is held in one piece, in order; axes of 1, which hold nothing, go wherever they fit.
    """
    groups = group_axes(before, after)
    pairs = groups if forward else [(new, old) for old, new in groups]
    extents = before if forward else after
    group_of = {axis: k for k, (own, _) in enumerate(pairs) for axis in own}
    order: list[int] = []
    held: dict[int, list[int]] = {}
    for axis in layout:
        k = group_of[axis]
        if extents[axis] != 1:
            require(k not in held or order[-1] == k, "merged axes do not stay adjacent")
            order += [k] if k not in held else []
            held.setdefault(k, []).append(axis)
    require(all(axes == sorted(axes) for axes in held.values()), "the order of merged axes changes")
    other = [axis for k in _with_unit_groups(order, len(pairs)) for axis in pairs[k][1]]
    return (layout, tuple(other)) if forward else (tuple(other), layout)


def _with_unit_groups(order: list[int], count: int) -> list[int]:
    """All groups; those of axes of extent 1 only follow the group before them."""
    full = list(order)
    present = set(order)
    for k in range(count):
        if k not in present:
            full.insert(full.index(k - 1) + 1 if k else 0, k)
            present.add(k)
    return full
