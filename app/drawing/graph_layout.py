"""How deep each box of a whole graph stands: its row, counted from the top.

What room there is beside the boxes that stand already.

Which boxes of a whole graph stand below each other, in one column, and where long lines run.

A column is a chain: each box feeds the next, is the deepest of those that feed it, and the next leads on the farthest.
So the longest way through a graph is straight, and what goes round it stands beside. A value that is read farther down
than in the next row runs down in a column of its own, once for all that read it.

Where the boxes and lines of a whole graph stand, however large it is.

Columns are put beside those that stand already and that they are linked with: the longest first, then the short ones,
so that what goes round something stands outside of it. Lines that run far go beside all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import accumulate
from operator import add, sub
from statistics import fmean

PathLength = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Link:
    """A line from box to box. Links that carry one value (`name`) from one source share their way.

    `is_auxiliary` are those of what merely helps, such as a shape: boxes line up for others.
    """

    source: int
    target: int
    name: str
    is_auxiliary: bool = False


@dataclass(frozen=True, slots=True)
class RowAssignment:
    """`rows` of the boxes, and the longest ways to each box from the top (`from_top`), and from it on (`to_bottom`).

    Ways are as long as the links at their end that are not light; the number of all links decides between equals.
    """

    rows: list[int]
    from_top: list[PathLength]
    to_bottom: list[PathLength]


def assign_rows(count: int, links: Sequence[Link]) -> RowAssignment:
    """The rows of `count` boxes whose links make no circle: as near as may be above what they feed. O(boxes + links).

    What feeds nothing stands right below what feeds it, not at the bottom of all.
    """
    fed: list[list[Link]] = [[] for _ in range(count)]
    feeding: list[list[Link]] = [[] for _ in range(count)]
    for link in links:
        fed[link.target].append(link)
        feeding[link.source].append(link)
    order = _topological_order(fed, feeding)
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


def _topological_order(fed: Sequence[Sequence[Link]], feeding: Sequence[Sequence[Link]]) -> list[int]:
    """The boxes, each after those that feed it."""
    missing = list(map(len, fed))
    order = [p for p, n in enumerate(missing) if n == 0]
    for p in order:
        for link in feeding[p]:
            missing[link.target] -= 1
            if missing[link.target] == 0:
                order.append(link.target)
    return order


BOX_GAP = 18.0
"""The room between boxes."""
MIN_GAP = 2.0
"""Of room that is left between two boxes, as much is not worth to be remembered."""
ROUNDING_TOLERANCE = 1e-3
"""What sums of coordinates may be off by."""
BLOCK = 64


@dataclass(slots=True)
class RowOccupancy:
    """What is taken in each row, as separate stretches from left to right."""

    lefts: list[list[float]]
    rights: list[list[float]]

    @classmethod
    def empty(cls, count: int) -> RowOccupancy:
        """So many rows in which nothing stands."""
        return cls([[] for _ in range(count)], [[] for _ in range(count)])

    def nearest_fit(self, top: int, half_widths: Sequence[float], wanted: float) -> float:
        """The centre nearest to the wanted one at which a column fits, to the right if in doubt."""
        right = self._first_fit(top, half_widths, wanted, 1)
        left = self._first_fit(top, half_widths, wanted, -1)
        return right if right - wanted <= wanted - left else left

    def _first_fit(self, top: int, halves: Sequence[float], x: float, side: int) -> float:
        """The first centre at which nothing is in the way, going to one side. `settled` counts rows where it fits."""
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
        """Where what is in the way ends on that side; None if nothing is."""
        rights = self.rights[row]
        first = bisect_right(rights, left + ROUNDING_TOLERANCE)
        if first == len(rights) or self.lefts[row][first] >= right - ROUNDING_TOLERANCE:
            return None
        if side < 0:
            return self.lefts[row][first]
        return rights[bisect_left(self.lefts[row], right - ROUNDING_TOLERANCE) - 1]

    def occupy(self, top: int, half_widths: Sequence[float], x: float) -> None:
        """Let a column stand there."""
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
    """How far the rows reach to one side, kept in blocks too, so that many rows are asked at once."""

    extents: list[float]
    block_max: list[float] = field(init=False)
    block_min: list[float] = field(init=False)  # what all rows of a block reach at least

    def __post_init__(self) -> None:
        self.block_max = [max(self.extents[i : i + BLOCK]) for i in range(0, len(self.extents), BLOCK)]
        self.block_min = [float("-inf")] * len(self.block_max)

    def max_extent(self, top: int, end: int) -> float:
        """How far any of the rows reaches."""
        first, last = -(-top // BLOCK), end // BLOCK
        if first >= last:
            return max(*self.extents[top:end], *self.block_min[top // BLOCK : (end - 1) // BLOCK + 1])
        ends = [*self.extents[top : first * BLOCK], *self.extents[last * BLOCK : end]]
        return max(*self.block_max[first:last], *ends, *self.block_min[top // BLOCK : (end - 1) // BLOCK + 1])

    def raise_extent(self, top: int, end: int, extent: float) -> None:
        """Let all of the rows reach that far; none reached farther."""
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
"""Rows that a line runs between the boxes; a longer one runs beside all of them."""


@dataclass(slots=True)
class Column:
    """The rows from `top` on: half the width in each, and which boxes are in it, or which run it is."""

    top: int
    half_widths: list[float]
    boxes: list[int]
    track: int | None = None


@dataclass(frozen=True, slots=True)
class Track:
    """The rows from `top` to before `end` that a value runs through on its way from `source` to what reads it."""

    source: int
    top: int
    end: int
    targets: frozenset[int]

    @property
    def is_long(self) -> bool:
        """Whether it runs beside all boxes."""
        return self.end - self.top > MAX_INNER_ROWS


NEAR_ROWS = 8
"""Rows in which a value has a way of its own to those that read it there."""
TrackKey = tuple[int, str, bool]
"""What shares a run: the source, the name of the value, and whether it is read near it."""
TrackIndices = dict[TrackKey, int]
"""The place of each run."""


def track_key(link: Link, rows: Sequence[int]) -> TrackKey:
    """Which run the link would take."""
    return link.source, link.name, rows[link.target] - rows[link.source] <= NEAR_ROWS


def column_links(links: Sequence[Link], depths: RowAssignment) -> dict[int, Link]:
    """The link along which a column goes on below a box."""
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
    """What the links need that skip rows."""
    readers: dict[TrackKey, dict[int, None]] = {}
    for link in links:
        if rows[link.target] - rows[link.source] > 1:
            readers.setdefault(track_key(link, rows), {})[link.target] = None
    runs = [Track(s, rows[s] + 1, max(rows[t] for t in read), frozenset(read)) for (s, _, _), read in readers.items()]
    return runs, {key: i for i, key in enumerate(readers)}


def columns_of(
    next_links: Mapping[int, Link], rows: Sequence[int], widths: Sequence[float], tracks: Sequence[Track]
) -> list[Column]:
    """All boxes and all runs but the long ones, each in one column. O(boxes + rows of runs)."""
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
"""The room between rows, between long lines, around all, and from a corner of a box to where lines may reach it."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The centres of the boxes, and the points that each link runs through: straight down from row to row."""

    width: float
    height: float
    centres: list[Point]
    paths: list[tuple[Point, ...]]


def graph_layout(sizes: Sequence[Point], links: Sequence[Link]) -> GraphLayout:
    """Boxes of such widths and heights, from top to bottom. About O(boxes + links)."""
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
    """The centres of all boxes, and of the runs that are not long, by their places."""
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
    """The columns that each is linked with, as often as it is. `column_indices`: the columns of boxes and of runs."""
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
    """The columns in the order in which they are put: each beside one that stands already, the shortest first.

    Where none is beside any that stands, the longest that is left comes.
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
    """Put the long runs beside all that is in their rows, the shorter ones nearer."""
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
    """Where a line leaves or reaches a box: as near as may be to where it comes from or goes."""
    half = max(width / 2 - PORT_INSET, 0.0)
    return min(max(wanted, centre - half), centre + half)
