"""Layout of whole graphs, of any size, in about linear time.

Each box has a row, one above those it feeds. A column is a chain: each box feeds the next, is the deepest of those that
feed it, and the next has the longest path to the bottom. So the longest path through a graph is straight, with branches
beside it. A value that is read further down than in the next row runs down in a column of its own, a track, once for
all its readers. Columns are placed next to columns that they are linked with, the longest first, then the short ones,
so that what surrounds a branch is outside of it. Tracks of many rows run beside all boxes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import accumulate
from operator import add, sub
from statistics import fmean

import networkx as nx

PathLength = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Link:
    """A line from box to box. Links that carry one value (`name`) from one source share a track.

    `is_auxiliary`: it carries a shape, index or condition; boxes line up along other links.
    """

    source: int
    target: int
    name: str
    is_auxiliary: bool = False


@dataclass(frozen=True, slots=True)
class RowAssignment:
    """`rows` of the boxes, and the lengths of the longest paths to each box (`from_top`) and from it (`to_bottom`).

    A length is the number of links that are not auxiliary; that of all links decides between equals.
    """

    rows: list[int]
    from_top: list[PathLength]
    to_bottom: list[PathLength]


def assign_rows(count: int, links: Sequence[Link]) -> RowAssignment:
    """The rows of `count` boxes whose links form no cycle: as near as possible to those they feed. O(boxes + links).

    A box that feeds none is in the row below the boxes that feed it, not in the last row.
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


BOX_GAP = 18.0
"""The space between boxes."""
MIN_GAP = 2.0
"""A space between two boxes that is too small to be kept."""
ROUNDING_TOLERANCE = 1e-3
"""The error of sums of coordinates."""
BLOCK = 64


@dataclass(slots=True)
class RowOccupancy:
    """The occupied intervals of each row, disjoint, from left to right."""

    lefts: list[list[float]]
    rights: list[list[float]]

    @classmethod
    def empty(cls, count: int) -> RowOccupancy:
        """`count` rows without boxes."""
        return cls([[] for _ in range(count)], [[] for _ in range(count)])

    def nearest_fit(self, top: int, half_widths: Sequence[float], wanted: float) -> float:
        """The centre nearest to the wanted one at which a column fits; of two, that to the right."""
        right = self._first_fit(top, half_widths, wanted, 1)
        left = self._first_fit(top, half_widths, wanted, -1)
        return right if right - wanted <= wanted - left else left

    def _first_fit(self, top: int, halves: Sequence[float], x: float, side: int) -> float:
        """The first centre to one side at which the column fits. `settled` counts rows in which it does."""
        settled, row, count = 0, 0, len(halves)
        while settled < count:
            reach = halves[row] + BOX_GAP / 2
            end = self._obstacle_end(top + row, x - reach, x + reach, side)
            if end is not None:
                x, settled = end + side * reach, 0
                continue
            settled += 1
            row = row + 1 if row + 1 < count else 0
        return x

    def _obstacle_end(self, row: int, left: float, right: float, side: int) -> float | None:
        """The end on that side of the intervals in the way; None if there are none."""
        rights = self.rights[row]
        first = bisect_right(rights, left + ROUNDING_TOLERANCE)
        if first == len(rights) or self.lefts[row][first] >= right - ROUNDING_TOLERANCE:
            return None
        if side < 0:
            return self.lefts[row][first]
        return rights[bisect_left(self.lefts[row], right - ROUNDING_TOLERANCE) - 1]

    def occupy(self, top: int, half_widths: Sequence[float], x: float) -> None:
        """Mark the space of a column as occupied."""
        for row, half in enumerate(half_widths, top):
            self._add(row, x - half - BOX_GAP / 2, x + half + BOX_GAP / 2)

    def _add(self, row: int, left: float, right: float) -> None:
        lefts, rights = self.lefts[row], self.rights[row]
        first = bisect_left(rights, left - MIN_GAP)
        last = bisect_right(lefts, right + MIN_GAP)
        if first < last:
            left, right = min(left, lefts[first]), max(right, rights[last - 1])
        lefts[first:last], rights[first:last] = [left], [right]


@dataclass(slots=True)
class Skyline:
    """The extents of the rows to one side, also by block, for queries over many rows."""

    extents: list[float]
    block_max: list[float] = field(init=False)
    block_min: list[float] = field(init=False)  # a lower bound of the extents in a block

    def __post_init__(self) -> None:
        self.block_max = [max(self.extents[i : i + BLOCK]) for i in range(0, len(self.extents), BLOCK)]
        self.block_min = [float("-inf")] * len(self.block_max)

    def max_extent(self, top: int, end: int) -> float:
        """The largest extent of the rows from `top` to before `end`."""
        first, last = -(-top // BLOCK), end // BLOCK
        if first >= last:
            return max(*self.extents[top:end], *self.block_min[top // BLOCK : (end - 1) // BLOCK + 1])
        ends = [*self.extents[top : first * BLOCK], *self.extents[last * BLOCK : end]]
        return max(*self.block_max[first:last], *ends, *self.block_min[top // BLOCK : (end - 1) // BLOCK + 1])

    def raise_extent(self, top: int, end: int, extent: float) -> None:
        """Set the extent of the rows from `top` to before `end`, of which none is larger."""
        first, last = -(-top // BLOCK), end // BLOCK
        if first >= last:
            first = last = end // BLOCK
            self._push_rows(top, end, extent)
        else:
            self._push_rows(top, first * BLOCK, extent)
            self._push_rows(last * BLOCK, end, extent)
        for block in range(first, last):
            self.block_max[block] = self.block_min[block] = extent

    def _push_rows(self, top: int, end: int, reach: float) -> None:
        if top < end:
            self.extents[top:end] = [reach] * (end - top)
            for block in range(top // BLOCK, (end - 1) // BLOCK + 1):
                self.block_max[block] = max(self.block_max[block], reach)


LINE_WIDTH = 6.0
"""The width of a line."""
MAX_INNER_ROWS = 40
"""The most rows of a track between the boxes; a longer one runs beside all boxes."""


@dataclass(slots=True)
class Column:
    """The rows from `top` on: half the width in each, and the boxes in it or the index of its track."""

    top: int
    half_widths: list[float]
    boxes: list[int]
    track: int | None = None


@dataclass(frozen=True, slots=True)
class Track:
    """The rows from `top` to before `end` that a value passes from `source` to its readers."""

    source: int
    top: int
    end: int
    targets: frozenset[int]

    @property
    def is_long(self) -> bool:
        """Whether it runs beside all boxes."""
        return self.end - self.top > MAX_INNER_ROWS


NEAR_ROWS = 8
"""Rows below its source in which the readers of a value have a track of their own."""
TrackKey = tuple[int, str, bool]
"""The links that share a track: the source, the name of the value, and whether its reader is near."""
TrackIndices = dict[TrackKey, int]
"""The index of each track."""


def track_key(link: Link, rows: Sequence[int]) -> TrackKey:
    """The key of the track that the link would take."""
    return link.source, link.name, rows[link.target] - rows[link.source] <= NEAR_ROWS


def column_links(links: Sequence[Link], depths: RowAssignment) -> dict[int, Link]:
    """The link along which a column continues, by the box above."""
    into: dict[int, Link] = {}
    out: dict[int, Link] = {}
    for link in links:
        known = into.get(link.target)
        if known is None or _rank(link, depths.from_top[link.source]) > _rank(known, depths.from_top[known.source]):
            into[link.target] = link
        known = out.get(link.source)
        if known is None or _rank(link, depths.to_bottom[link.target]) > _rank(known, depths.to_bottom[known.target]):
            out[link.source] = link
    rows = depths.rows
    return {
        source: link
        for source, link in out.items()
        if into[link.target] is link and rows[link.target] - rows[source] <= MAX_INNER_ROWS
    }


def _rank(link: Link, way: PathLength) -> tuple[bool, PathLength]:
    return not link.is_auxiliary, way


def tracks_of(links: Sequence[Link], rows: Sequence[int]) -> tuple[list[Track], TrackIndices]:
    """The tracks of the links that skip rows."""
    readers: dict[TrackKey, dict[int, None]] = {}
    for link in links:
        if rows[link.target] - rows[link.source] > 1:
            readers.setdefault(track_key(link, rows), {})[link.target] = None
    runs = [Track(s, rows[s] + 1, max(rows[t] for t in read), frozenset(read)) for (s, _, _), read in readers.items()]
    return runs, {key: i for i, key in enumerate(readers)}


def columns_of(
    next_links: Mapping[int, Link], rows: Sequence[int], widths: Sequence[float], tracks: Sequence[Track]
) -> list[Column]:
    """All boxes and all tracks but the long ones, each in one column. O(boxes + rows of tracks)."""
    columns: list[Column] = []
    for start in sorted(set(range(len(widths))) - {link.target for link in next_links.values()}):
        column = Column(rows[start], [widths[start] / 2], [start])
        while (link := next_links.get(column.boxes[-1])) is not None:
            column.half_widths += [LINE_WIDTH / 2] * (rows[link.target] - rows[link.source] - 1)
            column.half_widths.append(widths[link.target] / 2)
            column.boxes.append(link.target)
        columns.append(column)
    columns += [Column(r.top, [LINE_WIDTH / 2] * (r.end - r.top), [], i) for i, r in enumerate(tracks) if not r.is_long]
    return columns


ROW_GAP, TRACK_GAP, MARGIN, PORT_INSET = 34.0, 10.0, 24.0, 8.0
"""The space between rows, between long tracks, around all, and from a corner of a box to the nearest line end."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The centres of the boxes, and the points of each link: straight down from row to row."""

    width: float
    height: float
    centres: list[Point]
    paths: list[tuple[Point, ...]]


def graph_layout(sizes: Sequence[Point], links: Sequence[Link]) -> GraphLayout:
    """Lay out boxes of the given widths and heights from top to bottom. About O(boxes + links)."""
    if not sizes:
        return GraphLayout(2 * MARGIN, 2 * MARGIN, [], [])
    found = assign_rows(len(sizes), links)
    following = column_links(links, found)
    straight = {id(link) for link in following.values()}
    runs, places = tracks_of([link for link in links if id(link) not in straight], found.rows)
    rows = RowOccupancy.empty(max(found.rows) + 1)
    columns = columns_of(following, found.rows, [w for w, _ in sizes], runs)
    taken = [places.get(track_key(link, found.rows)) if id(link) not in straight else None for link in links]
    centres, lanes = _x_coordinates(columns, links, runs, taken, rows)
    _place_long_tracks(runs, centres, lanes, rows)
    half = [w / 2 for w, _ in sizes]
    left = min([*map(sub, centres, half), *lanes.values()]) - MARGIN
    right = max([*map(add, centres, half), *lanes.values()]) + MARGIN
    down = _row_bounds(found.rows, sizes)
    points = [(x - left, down.middle(row)) for x, row in zip(centres, found.rows, strict=True)]
    ways = [
        points[link.source][0] if run is None else lanes[run] - left for link, run in zip(links, taken, strict=True)
    ]
    paths = [_link_path(link, found.rows, points, sizes, down, way) for link, way in zip(links, ways, strict=True)]
    return GraphLayout(right - left, down.bottoms[-1] + MARGIN, points, paths)


def _x_coordinates(
    columns: Sequence[Column],
    links: Sequence[Link],
    tracks: Sequence[Track],
    link_tracks: Sequence[int | None],
    rows: RowOccupancy,
) -> tuple[list[float], dict[int, float]]:
    """The centres of all boxes, and of the tracks that are not long, by index."""
    column_of = {p: i for i, c in enumerate(columns) for p in c.boxes}
    column_of_run = {c.track: i for i, c in enumerate(columns) if c.track is not None}
    beside = _column_neighbours(columns, links, tracks, link_tracks, (column_of, column_of_run))
    xs: list[float | None] = [None] * len(columns)
    for i in _placement_order(columns, beside):
        near = [x for j in beside[i] if (x := xs[j]) is not None]
        xs[i] = x = rows.nearest_fit(columns[i].top, columns[i].half_widths, fmean(near) if near else 0.0)
        rows.occupy(columns[i].top, columns[i].half_widths, x)
    settled = [x or 0.0 for x in xs]
    return [settled[column_of[p]] for p in range(len(column_of))], {r: settled[i] for r, i in column_of_run.items()}


def _column_neighbours(
    columns: Sequence[Column],
    links: Sequence[Link],
    tracks: Sequence[Track],
    link_tracks: Sequence[int | None],
    column_indices: tuple[dict[int, int], dict[int, int]],
) -> list[list[int]]:
    """The columns that each is linked with, once a link. `column_indices`: the columns of boxes and of tracks."""
    of_box, of_run = column_indices
    pairs = [(of_box[tracks[run].source], i) for run, i in of_run.items()]
    for link, run in zip(links, link_tracks, strict=True):
        own = of_run.get(run) if run is not None and link.target in tracks[run].targets else None
        pairs.append((of_box[link.source] if own is None else own, of_box[link.target]))
    beside: list[list[int]] = [[] for _ in columns]
    for a, b in pairs:
        if a != b:
            beside[a].append(b)
            beside[b].append(a)
    return beside


def _placement_order(columns: Sequence[Column], neighbours: Sequence[Sequence[int]]) -> list[int]:
    """The columns in order of placement: each linked with one that is placed, the shortest first.

    Where none is linked with a placed one, the longest of the others comes next.
    """
    seen: set[int] = set()
    order: list[int] = []
    for start in sorted(range(len(columns)), key=lambda i: (-len(columns[i].half_widths), i)):
        waiting = [] if start in seen else [(0, start)]
        seen.add(start)
        heapify(waiting)
        while waiting:
            i = heappop(waiting)[1]
            order.append(i)
            for j in neighbours[i]:
                if j not in seen:
                    seen.add(j)
                    heappush(waiting, (len(columns[j].half_widths), j))
    return order


def _place_long_tracks(
    tracks: Sequence[Track], centres: Sequence[float], track_xs: dict[int, float], rows: RowOccupancy
) -> None:
    """Place the long tracks beside all boxes of their rows, the shorter ones nearer."""
    far = sorted((run.end - run.top, i) for i, run in enumerate(tracks) if run.is_long)
    if not far:
        return
    right = Skyline([max(r, default=0.0) for r in rows.rights])
    left = Skyline([-min(r, default=0.0) for r in rows.lefts])
    for _, i in far:
        run = tracks[i]
        wanted = fmean([centres[run.source], *(centres[p] for p in sorted(run.targets))])
        a, b = (side.max_extent(run.top, run.end) + TRACK_GAP for side in (left, right))
        track_xs[i] = b if b - wanted <= wanted + a else -a
        (right if track_xs[i] > 0 else left).raise_extent(run.top, run.end, abs(track_xs[i]))


@dataclass(frozen=True, slots=True)
class _RowBounds:
    """The top and the bottom of each row."""

    tops: list[float]
    bottoms: list[float]

    def middle(self, row: int) -> float:
        return (self.tops[row] + self.bottoms[row]) / 2


def _row_bounds(rows: Sequence[int], sizes: Sequence[Point]) -> _RowBounds:
    heights = [0.0] * (max(rows) + 1)
    for row, (_, height) in zip(rows, sizes, strict=True):
        heights[row] = max(heights[row], height)
    bottoms = [y - ROW_GAP + MARGIN for y in accumulate(height + ROW_GAP for height in heights)]
    return _RowBounds([y - height for y, height in zip(bottoms, heights, strict=True)], bottoms)


def _link_path(
    link: Link,
    rows: Sequence[int],
    points: Sequence[Point],
    sizes: Sequence[Point],
    row_bounds: _RowBounds,
    track_x: float,
) -> tuple[Point, ...]:
    """From the bottom of a box to the top of another; where that skips rows, down the `track_x` kept free for it."""
    (x0, y0), (x1, y1) = points[link.source], points[link.target]
    (w0, h0), (w1, h1) = sizes[link.source], sizes[link.target]
    upper, lower = rows[link.source], rows[link.target]
    skips = lower - upper > 1
    out = _port_x(x0, w0, track_x if skips else x1)
    into = _port_x(x1, w1, track_x if skips else out)
    path = [(out, y0 + h0 / 2), (out, row_bounds.bottoms[upper])]
    if skips:
        path += [(track_x, row_bounds.tops[upper + 1]), (track_x, row_bounds.bottoms[lower - 1])]
    path += [(into, row_bounds.tops[lower]), (into, y1 - h1 / 2)]
    return tuple(dict.fromkeys((round(x, 1), round(y, 1)) for x, y in path))


def _port_x(centre: float, width: float, wanted: float) -> float:
    """The x at which a line leaves or reaches a box: as near as possible to the other end."""
    half = max(width / 2 - PORT_INSET, 0.0)
    return min(max(wanted, centre - half), centre + half)
