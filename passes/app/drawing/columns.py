"""Which boxes of a whole graph stand below each other, in one column, and where long lines run.

A column is a chain: each box feeds the next, is the deepest of those that feed it, and the next leads on the farthest.
So the longest way through a graph is straight, and what goes round it stands beside. A value that is read farther down
than in the next row runs down in a column of its own, once for all that read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .depths import Depths, Link, Way

BEND = 6.0
"""The width of a line."""
LONGEST = 40
"""Rows that a line runs between the boxes; a longer one runs beside all of them."""


@dataclass(slots=True)
class Column:
    """The rows from `top` on: half the width in each, and which boxes are in it, or which run it is."""

    top: int
    halves: list[float]
    boxes: list[int]
    run: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The rows from `top` to before `end` that a value runs through on its way from `source` to what reads it."""

    source: int
    top: int
    end: int
    readers: frozenset[int]

    @property
    def is_long(self) -> bool:
        """Whether it runs beside all boxes."""
        return self.end - self.top > LONGEST


NEAR = 8
"""Rows in which a value has a way of its own to those that read it there."""
Key = tuple[int, str, bool]
"""What shares a run: the source, the name of the value, and whether it is read near it."""
Places = dict[Key, int]
"""The place of each run."""


def key_of(link: Link, rows: Sequence[int]) -> Key:
    """Which run the link would take."""
    return link.source, link.name, rows[link.target] - rows[link.source] <= NEAR


def followed(links: Sequence[Link], depths: Depths) -> dict[int, Link]:
    """The link along which a column goes on below a box."""
    into: dict[int, Link] = {}
    out: dict[int, Link] = {}
    for link in links:
        known = into.get(link.target)
        if known is None or _rank(link, depths.below[link.source]) > _rank(known, depths.below[known.source]):
            into[link.target] = link
        known = out.get(link.source)
        if known is None or _rank(link, depths.above[link.target]) > _rank(known, depths.above[known.target]):
            out[link.source] = link
    rows = depths.rows
    return {
        source: link
        for source, link in out.items()
        if into[link.target] is link and rows[link.target] - rows[source] <= LONGEST
    }


def _rank(link: Link, way: Way) -> tuple[bool, Way]:
    return not link.light, way


def runs_of(links: Sequence[Link], rows: Sequence[int]) -> tuple[list[Run], Places]:
    """What the links need that skip rows."""
    readers: dict[Key, dict[int, None]] = {}
    for link in links:
        if rows[link.target] - rows[link.source] > 1:
            readers.setdefault(key_of(link, rows), {})[link.target] = None
    runs = [Run(s, rows[s] + 1, max(rows[t] for t in read), frozenset(read)) for (s, _, _), read in readers.items()]
    return runs, {key: i for i, key in enumerate(readers)}


def columns_of(
    following: Mapping[int, Link], rows: Sequence[int], widths: Sequence[float], runs: Sequence[Run]
) -> list[Column]:
    """All boxes and all runs but the long ones, each in one column. O(boxes + rows of runs)."""
    columns: list[Column] = []
    for start in sorted(set(range(len(widths))) - {link.target for link in following.values()}):
        column = Column(rows[start], [widths[start] / 2], [start])
        while (link := following.get(column.boxes[-1])) is not None:
            column.halves += [BEND / 2] * (rows[link.target] - rows[link.source] - 1)
            column.halves.append(widths[link.target] / 2)
            column.boxes.append(link.target)
        columns.append(column)
    columns += [Column(r.top, [BEND / 2] * (r.end - r.top), [], i) for i, r in enumerate(runs) if not r.is_long]
    return columns
