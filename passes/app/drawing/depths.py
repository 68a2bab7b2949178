"""How deep each box of a whole graph stands: its row, counted from the top."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Way = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Link:
    """A line from box to box. Links that carry one value (`name`) from one source share their way.

    `light` are those of what merely helps, such as a shape: boxes line up for others.
    """

    source: int
    target: int
    name: str
    light: bool = False


@dataclass(frozen=True, slots=True)
class Depths:
    """`rows` of the boxes, and the longest ways to each box from the top (`below`), and from it on (`above`).

    Ways are as long as the links at their end that are not light; the number of all links decides between equals.
    """

    rows: list[int]
    below: list[Way]
    above: list[Way]


def depths(count: int, links: Sequence[Link]) -> Depths:
    """The rows of `count` boxes whose links make no circle: as near as may be above what they feed. O(boxes + links).

    What feeds nothing stands right below what feeds it, not at the bottom of all.
    """
    fed: list[list[Link]] = [[] for _ in range(count)]
    feeding: list[list[Link]] = [[] for _ in range(count)]
    for link in links:
        fed[link.target].append(link)
        feeding[link.source].append(link)
    order = _in_order(fed, feeding)
    below, above = [(0, 0)] * count, [(0, 0)] * count
    for p in order:
        below[p] = _longest((below[link.source], link) for link in fed[p])
    rows = [length for _, length in below]
    for p in reversed(order):
        above[p] = _longest((above[link.target], link) for link in feeding[p])
        rows[p] = min((rows[link.target] - 1 for link in feeding[p]), default=rows[p])
    return Depths(rows, below, above)


def _longest(ways: Iterable[tuple[Way, Link]]) -> Way:
    heavy = length = 0
    for way, link in ways:
        heavy = heavy if link.light else max(heavy, way[0] + 1)
        length = max(length, way[1] + 1)
    return heavy, length


def _in_order(fed: Sequence[Sequence[Link]], feeding: Sequence[Sequence[Link]]) -> list[int]:
    """The boxes, each after those that feed it."""
    missing = list(map(len, fed))
    order = [p for p, n in enumerate(missing) if n == 0]
    for p in order:
        for link in feeding[p]:
            missing[link.target] -= 1
            if missing[link.target] == 0:
                order.append(link.target)
    return order
