"""Layout of whole graphs of any size, in approximately linear time.

Each box has a row, one above the boxes that it feeds. A column is a chain: each box feeds the next one, is the deepest
box that feeds it, and the next has the longest path to the bottom. The longest path through a graph is therefore
straight, with branches beside it. A value that is read beyond the next row has a column of its own, a track, shared by
all its readers. Columns are placed next to columns that they are linked with: the longest first, then the short ones,
so that a branch is surrounded by its neighbours. Tracks of many rows run beside all boxes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from operator import add, sub
from statistics import fmean

import networkx as nx
import numpy as np
from msgspec import Struct

PathLength = tuple[int, int]
Point = tuple[float, float]
BOX_GAP, ROW_GAP, TRACK_GAP, MARGIN, PORT_INSET = 18.0, 34.0, 10.0, 24.0, 8.0
"""The space between boxes, rows and long tracks, around everything, and from a box's corner to the nearest line end."""
MIN_GAP = 2.0
"""Gaps between two boxes up to this size are not kept."""
ROUNDING_TOLERANCE = 1e-3
"""The rounding error of sums of coordinates."""
LINE_WIDTH = 6.0
MAX_INNER_ROWS = 40
"""The maximum number of rows of a track between boxes; longer tracks run beside all boxes."""
NEAR_ROWS = 8
"""The number of rows below its source in which a value's readers have a track of their own."""


class Link(Struct, frozen=True, eq=False):
    """A line between boxes. Links that carry one value (`name`) from one source share a track.

    `is_auxiliary`: it carries a shape, index or condition; boxes are aligned along other links.
    """

    source: int
    target: int
    name: str
    is_auxiliary: bool = False


class RowAssignment(Struct, frozen=True):
    """`rows` of the boxes, and the lengths of the longest paths to each box (`from_top`) and from it (`to_bottom`).

    A length is the number of links that are not auxiliary; ties are broken by the number of all links.
    """

    rows: list[int]
    from_top: list[PathLength]
    to_bottom: list[PathLength]


def assign_rows(count: int, links: Sequence[Link]) -> RowAssignment:
    """Assign rows to `count` boxes without cycles, as near as possible to the boxes that they feed. O(boxes + links).

    A box that feeds no other is in the row below the boxes that feed it, not in the last row.
    """
    fed: list[list[Link]] = [[] for _ in range(count)]
    feeding: list[list[Link]] = [[] for _ in range(count)]
    for link in links:
        fed[link.target].append(link)
        feeding[link.source].append(link)
    edges: nx.DiGraph[int] = nx.DiGraph([(link.source, link.target) for link in links])
    edges.add_nodes_from(range(count))
    order = list(nx.topological_sort(edges))
    below, above = [(0, 0)] * count, [(0, 0)] * count
    for p in order:
        below[p] = _longest_path((below[link.source], link) for link in fed[p])
    rows = [length for _, length in below]
    for p in reversed(order):
        above[p] = _longest_path((above[link.target], link) for link in feeding[p])
        rows[p] = min((rows[link.target] - 1 for link in feeding[p]), default=rows[p])
    return RowAssignment(rows, below, above)


def _longest_path(ways: Iterable[tuple[PathLength, Link]]) -> PathLength:
    heavy = length = 0
    for way, link in ways:
        heavy = heavy if link.is_auxiliary else max(heavy, way[0] + 1)
        length = max(length, way[1] + 1)
    return heavy, length


class RowOccupancy:
    """The occupied intervals of each row: disjoint, from left to right."""

    def __init__(self, count: int) -> None:
        self.lefts: list[list[float]] = [[] for _ in range(count)]
        self.rights: list[list[float]] = [[] for _ in range(count)]

    def place(self, column: Column, wanted: float) -> float:
        """Occupy space for a column, with its centre as near as possible to the wanted one; ties go to the right."""
        right, left = (self._first_fit(column, wanted, side) for side in (1, -1))
        x = right if right - wanted <= wanted - left else left
        for row, half in enumerate(column.half_widths, column.top):
            self._add(row, x - half - BOX_GAP / 2, x + half + BOX_GAP / 2)
        return x

    def _first_fit(self, column: Column, x: float, side: int) -> float:
        """The first centre on one side at which the column fits. `settled` counts rows in which it fits."""
        settled, row, count = 0, 0, len(column.half_widths)
        while settled < count:
            reach = column.half_widths[row] + BOX_GAP / 2
            end = self._obstacle_end(column.top + row, x - reach, x + reach, side)
            if end is not None:
                x, settled = end + side * reach, 0
                continue
            settled += 1
            row = row + 1 if row + 1 < count else 0
        return x

    def _obstacle_end(self, row: int, left: float, right: float, side: int) -> float | None:
        """The end, on one side, of the intervals in the way; None if there are none."""
        rights = self.rights[row]
        first = bisect_right(rights, left + ROUNDING_TOLERANCE)
        if first == len(rights) or self.lefts[row][first] >= right - ROUNDING_TOLERANCE:
            return None
        if side < 0:
            return self.lefts[row][first]
        return rights[bisect_left(self.lefts[row], right - ROUNDING_TOLERANCE) - 1]

    def _add(self, row: int, left: float, right: float) -> None:
        lefts, rights = self.lefts[row], self.rights[row]
        first = bisect_left(rights, left - MIN_GAP)
        last = bisect_right(lefts, right + MIN_GAP)
        if first < last:
            left, right = min(left, lefts[first]), max(right, rights[last - 1])
        lefts[first:last], rights[first:last] = [left], [right]


class Track(Struct, frozen=True, eq=False):
    """The rows from `top` up to, but excluding, `end` that a value passes from `source` to its readers."""

    source: int
    top: int
    end: int
    targets: frozenset[int]

    @property
    def is_long(self) -> bool:
        """Whether the track runs beside all boxes."""
        return self.end - self.top > MAX_INNER_ROWS


@dataclass(slots=True)
class Column:
    """The rows from `top`: half the width in each, and the boxes or the track in the column."""

    top: int
    half_widths: list[float]
    boxes: list[int]
    track: Track | None = None


def _following_links(links: Sequence[Link], depths: RowAssignment) -> dict[int, Link]:
    """The link along which a column continues, by the upper box."""
    into: dict[int, list[Link]] = defaultdict(list)
    out: dict[int, list[Link]] = defaultdict(list)
    for link in links:
        into[link.target].append(link)
        out[link.source].append(link)
    up = {p: max(ends, key=lambda k: (not k.is_auxiliary, depths.from_top[k.source])) for p, ends in into.items()}
    down = {p: max(ends, key=lambda k: (not k.is_auxiliary, depths.to_bottom[k.target])) for p, ends in out.items()}
    return {
        source: link
        for source, link in down.items()
        if up[link.target] is link and depths.rows[link.target] - depths.rows[source] <= MAX_INNER_ROWS
    }


def _tracks(links: Iterable[Link], rows: Sequence[int]) -> dict[Link, Track]:
    """The tracks of the links that skip rows; near and far readers of a value have separate tracks."""
    shared: dict[tuple[int, str, bool], list[Link]] = defaultdict(list)
    for link in links:
        length = rows[link.target] - rows[link.source]
        if length > 1:
            shared[link.source, link.name, length <= NEAR_ROWS].append(link)
    found: dict[Link, Track] = {}
    for (source, _, _), group in shared.items():
        targets = frozenset(link.target for link in group)
        track = Track(source, rows[source] + 1, max(rows[t] for t in targets), targets)
        found |= dict.fromkeys(group, track)
    return found


def _columns(
    following: Mapping[int, Link], rows: Sequence[int], sizes: Sequence[Point], tracks: Sequence[Track]
) -> Iterator[Column]:
    """Columns of all boxes and tracks except long tracks. O(boxes + rows of tracks)."""
    for start in sorted(set(range(len(sizes))) - {link.target for link in following.values()}):
        column = Column(rows[start], [sizes[start][0] / 2], [start])
        while (link := following.get(column.boxes[-1])) is not None:
            column.half_widths += [LINE_WIDTH / 2] * (rows[link.target] - rows[link.source] - 1)
            column.half_widths.append(sizes[link.target][0] / 2)
            column.boxes.append(link.target)
        yield column
    yield from (Column(t.top, [LINE_WIDTH / 2] * (t.end - t.top), [], t) for t in tracks if not t.is_long)


class GraphLayout(Struct, frozen=True):
    """The centres of the boxes, and the points of each link, which is vertical within a row."""

    width: float
    height: float
    centres: list[Point]
    paths: list[tuple[Point, ...]]


def graph_layout(sizes: Sequence[Point], links: Sequence[Link]) -> GraphLayout:
    """Lay out boxes of the given widths and heights from top to bottom. About O(boxes + links)."""
    if not sizes:
        return GraphLayout(2 * MARGIN, 2 * MARGIN, [], [])
    depths = assign_rows(len(sizes), links)
    rows, following = depths.rows, _following_links(links, depths)
    straight = set(following.values())
    track_of = _tracks((link for link in links if link not in straight), rows)
    tracks = list(dict.fromkeys(track_of.values()))
    occupancy = RowOccupancy(max(rows) + 1)
    centres, track_xs = _x_coordinates(list(_columns(following, rows, sizes, tracks)), links, track_of, occupancy)
    track_xs |= _long_track_xs(tracks, centres, occupancy)
    half = [w / 2 for w, _ in sizes]
    left = min([*map(sub, centres, half), *track_xs.values()]) - MARGIN
    right = max([*map(add, centres, half), *track_xs.values()]) + MARGIN
    bounds = _row_bounds(rows, sizes)
    points = [(x - left, sum(bounds[row]) / 2) for x, row in zip(centres, rows, strict=True)]

    def path(link: Link) -> tuple[Point, ...]:
        """The points from the bottom of a box to the top of another, along the track if rows are skipped."""
        (x0, y0), (x1, y1) = points[link.source], points[link.target]
        upper, lower = rows[link.source], rows[link.target]
        inner_x = track_xs[track_of[link]] - left if link in track_of else x0
        skips = lower - upper > 1
        out = _port_x(x0, half[link.source], inner_x if skips else x1)
        into = _port_x(x1, half[link.target], inner_x if skips else out)
        inner = [(inner_x, bounds[upper + 1][0]), (inner_x, bounds[lower - 1][1])] if skips else []
        first = [(out, y0 + sizes[link.source][1] / 2), (out, bounds[upper][1])]
        last = [(into, bounds[lower][0]), (into, y1 - sizes[link.target][1] / 2)]
        return tuple(dict.fromkeys((round(x, 1), round(y, 1)) for x, y in (*first, *inner, *last)))

    return GraphLayout(right - left, bounds[-1][1] + MARGIN, points, [path(link) for link in links])


def _x_coordinates(
    columns: Sequence[Column], links: Sequence[Link], track_of: Mapping[Link, Track], rows: RowOccupancy
) -> tuple[list[float], dict[Track, float]]:
    """The centres of all boxes, and of the tracks that are not long."""
    box_columns = {p: i for i, c in enumerate(columns) for p in c.boxes}
    track_columns = {c.track: i for i, c in enumerate(columns) if c.track is not None}
    neighbours: list[list[int]] = [[] for _ in columns]  # one entry per link
    pairs = [(box_columns[track.source], i) for track, i in track_columns.items()]
    for link in links:
        track = track_of.get(link)
        own = track_columns.get(track) if track is not None else None
        pairs.append((box_columns[link.source] if own is None else own, box_columns[link.target]))
    for a, b in pairs:
        if a != b:
            neighbours[a].append(b)
            neighbours[b].append(a)
    xs: dict[int, float] = {}
    for i in _placement_order(columns, neighbours):
        near = [xs[j] for j in neighbours[i] if j in xs]
        xs[i] = rows.place(columns[i], fmean(near) if near else 0.0)
    return [xs[box_columns[p]] for p in range(len(box_columns))], {t: xs[i] for t, i in track_columns.items()}


def _placement_order(columns: Sequence[Column], neighbours: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield the columns in placement order: the shortest column linked with a placed one comes next.

    If there is none, the longest remaining column comes next.
    """
    seen: set[int] = set()
    for start in sorted(range(len(columns)), key=lambda i: (-len(columns[i].half_widths), i)):
        waiting = [] if start in seen else [(0, start)]
        seen.add(start)
        while waiting:
            i = heappop(waiting)[1]
            yield i
            for j in neighbours[i]:
                if j not in seen:
                    seen.add(j)
                    heappush(waiting, (len(columns[j].half_widths), j))


def _long_track_xs(tracks: Iterable[Track], centres: Sequence[float], rows: RowOccupancy) -> dict[Track, float]:
    """Place long tracks beside all boxes of their rows, with shorter ones nearer."""
    right = np.array([max(r, default=0.0) for r in rows.rights])
    left = np.array([-min(r, default=0.0) for r in rows.lefts])
    xs: dict[Track, float] = {}
    for t in sorted((t for t in tracks if t.is_long), key=lambda t: t.end - t.top):
        wanted = fmean([centres[t.source], *(centres[p] for p in t.targets)])
        a, b = (float(side[t.top : t.end].max()) + TRACK_GAP for side in (left, right))
        xs[t] = b if b - wanted <= wanted + a else -a
        (right if xs[t] > 0 else left)[t.top : t.end] = abs(xs[t])
    return xs


def _row_bounds(rows: Sequence[int], sizes: Sequence[Point]) -> list[Point]:
    """The top and the bottom of each row."""
    heights = [0.0] * (max(rows) + 1)
    for row, (_, height) in zip(rows, sizes, strict=True):
        heights[row] = max(heights[row], height)
    bottoms = [y - ROW_GAP + MARGIN for y in accumulate(height + ROW_GAP for height in heights)]
    return list(zip(map(sub, bottoms, heights), bottoms, strict=True))


def _port_x(centre: float, half_width: float, wanted: float) -> float:
    """The x coordinate at which a line leaves or enters a box, as near as possible to the other end."""
    room = max(half_width - PORT_INSET, 0.0)
    return min(max(wanted, centre - room), centre + room)
