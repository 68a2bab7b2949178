"""Where the boxes and lines of a whole graph stand, however large it is.

Columns are put beside those that stand already and that they are linked with: the longest first, then the short ones,
so that what goes round something stands outside of it. Lines that run far go beside all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate
from operator import add, sub
from statistics import fmean

from .columns import Column, Run, columns_of, followed, key_of, runs_of
from .depths import Link, depths
from .room import Edge, Rows

DOWN, LANE, MARGIN, PORT = 34.0, 10.0, 24.0, 8.0
"""The room between rows, between long lines, around all, and from a corner of a box to where lines may reach it."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Whole:
    """The centres of the boxes, and the points that each link runs through: straight down from row to row."""

    width: float
    height: float
    centres: list[Point]
    paths: list[tuple[Point, ...]]


def laid_out(sizes: Sequence[Point], links: Sequence[Link]) -> Whole:
    """Boxes of such widths and heights, from top to bottom. About O(boxes + links)."""
    if not sizes:
        return Whole(2 * MARGIN, 2 * MARGIN, [], [])
    found = depths(len(sizes), links)
    following = followed(links, found)
    straight = {id(link) for link in following.values()}
    runs, places = runs_of([link for link in links if id(link) not in straight], found.rows)
    rows = Rows.empty(max(found.rows) + 1)
    columns = columns_of(following, found.rows, [w for w, _ in sizes], runs)
    taken = [places.get(key_of(link, found.rows)) if id(link) not in straight else None for link in links]
    centres, lanes = _across(columns, links, runs, taken, rows)
    _beside(runs, centres, lanes, rows)
    half = [w / 2 for w, _ in sizes]
    left = min([*map(sub, centres, half), *lanes.values()]) - MARGIN
    right = max([*map(add, centres, half), *lanes.values()]) + MARGIN
    down = _down(found.rows, sizes)
    points = [(x - left, down.middle(row)) for x, row in zip(centres, found.rows, strict=True)]
    ways = [
        points[link.source][0] if run is None else lanes[run] - left for link, run in zip(links, taken, strict=True)
    ]
    paths = [_path(link, found.rows, points, sizes, down, way) for link, way in zip(links, ways, strict=True)]
    return Whole(right - left, down.bottoms[-1] + MARGIN, points, paths)


def _across(
    columns: Sequence[Column], links: Sequence[Link], runs: Sequence[Run], taken: Sequence[int | None], rows: Rows
) -> tuple[list[float], dict[int, float]]:
    """The centres of all boxes, and of the runs that are not long, by their places."""
    column_of = {p: i for i, c in enumerate(columns) for p in c.boxes}
    column_of_run = {c.run: i for i, c in enumerate(columns) if c.run is not None}
    beside = _beside_each(columns, links, runs, taken, (column_of, column_of_run))
    xs: list[float | None] = [None] * len(columns)
    for i in _in_turn(columns, beside):
        near = [x for j in beside[i] if (x := xs[j]) is not None]
        xs[i] = x = rows.nearest(columns[i].top, columns[i].halves, fmean(near) if near else 0.0)
        rows.take(columns[i].top, columns[i].halves, x)
    settled = [x or 0.0 for x in xs]
    return [settled[column_of[p]] for p in range(len(column_of))], {r: settled[i] for r, i in column_of_run.items()}


def _beside_each(
    columns: Sequence[Column],
    links: Sequence[Link],
    runs: Sequence[Run],
    taken: Sequence[int | None],
    where: tuple[dict[int, int], dict[int, int]],
) -> list[list[int]]:
    """The columns that each is linked with, as often as it is. `where`: the columns of boxes and of runs."""
    of_box, of_run = where
    pairs = [(of_box[runs[run].source], i) for run, i in of_run.items()]
    for link, run in zip(links, taken, strict=True):
        own = of_run.get(run) if run is not None and link.target in runs[run].readers else None
        pairs.append((of_box[link.source] if own is None else own, of_box[link.target]))
    beside: list[list[int]] = [[] for _ in columns]
    for a, b in pairs:
        if a != b:
            beside[a].append(b)
            beside[b].append(a)
    return beside


def _in_turn(columns: Sequence[Column], beside: Sequence[Sequence[int]]) -> list[int]:
    """The columns in the order in which they are put: each beside one that stands already, the shortest first.

    Where none is beside any that stands, the longest that is left comes.
    """
    seen: set[int] = set()
    order: list[int] = []
    for start in sorted(range(len(columns)), key=lambda i: (-len(columns[i].halves), i)):
        waiting = [] if start in seen else [(0, start)]
        seen.add(start)
        heapify(waiting)
        while waiting:
            i = heappop(waiting)[1]
            order.append(i)
            for j in beside[i]:
                if j not in seen:
                    seen.add(j)
                    heappush(waiting, (len(columns[j].halves), j))
    return order


def _beside(runs: Sequence[Run], centres: Sequence[float], lanes: dict[int, float], rows: Rows) -> None:
    """Put the long runs beside all that is in their rows, the shorter ones nearer."""
    far = sorted((run.end - run.top, i) for i, run in enumerate(runs) if run.is_long)
    if not far:
        return
    right = Edge([max(r, default=0.0) for r in rows.rights])
    left = Edge([-min(r, default=0.0) for r in rows.lefts])
    for _, i in far:
        run = runs[i]
        wanted = fmean([centres[run.source], *(centres[p] for p in sorted(run.readers))])
        a, b = (side.farthest(run.top, run.end) + LANE for side in (left, right))
        lanes[i] = b if b - wanted <= wanted + a else -a
        (right if lanes[i] > 0 else left).push(run.top, run.end, abs(lanes[i]))


@dataclass(frozen=True, slots=True)
class _Down:
    """The top and the bottom of each row."""

    tops: list[float]
    bottoms: list[float]

    def middle(self, row: int) -> float:
        return (self.tops[row] + self.bottoms[row]) / 2


def _down(rows: Sequence[int], sizes: Sequence[Point]) -> _Down:
    heights = [0.0] * (max(rows) + 1)
    for row, (_, height) in zip(rows, sizes, strict=True):
        heights[row] = max(heights[row], height)
    bottoms = [y - DOWN + MARGIN for y in accumulate(height + DOWN for height in heights)]
    return _Down([y - height for y, height in zip(bottoms, heights, strict=True)], bottoms)


def _path(
    link: Link, rows: Sequence[int], points: Sequence[Point], sizes: Sequence[Point], down: _Down, way: float
) -> tuple[Point, ...]:
    """From the bottom of a box to the top of another; where that skips rows, down the `way` kept free for it."""
    (x0, y0), (x1, y1) = points[link.source], points[link.target]
    (w0, h0), (w1, h1) = sizes[link.source], sizes[link.target]
    upper, lower = rows[link.source], rows[link.target]
    skips = lower - upper > 1
    out = _port(x0, w0, way if skips else x1)
    into = _port(x1, w1, way if skips else out)
    path = [(out, y0 + h0 / 2), (out, down.bottoms[upper])]
    if skips:
        path += [(way, down.tops[upper + 1]), (way, down.bottoms[lower - 1])]
    path += [(into, down.tops[lower]), (into, y1 - h1 / 2)]
    return tuple(dict.fromkeys((round(x, 1), round(y, 1)) for x, y in path))


def _port(centre: float, width: float, wanted: float) -> float:
    """Where a line leaves or reaches a box: as near as may be to where it comes from or goes."""
    half = max(width / 2 - PORT, 0.0)
    return min(max(wanted, centre - half), centre + half)
