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


ACROSS = 18.0
"""The room between boxes."""
USELESS = 2.0
"""Of room that is left between two boxes, as much is not worth to be remembered."""
ROUNDED = 1e-3
"""What sums of coordinates may be off by."""
BLOCK = 64


@dataclass(slots=True)
class Rows:
    """What is taken in each row, as separate stretches from left to right."""

    lefts: list[list[float]]
    rights: list[list[float]]

    @classmethod
    def empty(cls, count: int) -> Rows:
        """So many rows in which nothing stands."""
        return cls([[] for _ in range(count)], [[] for _ in range(count)])

    def nearest(self, top: int, halves: Sequence[float], wanted: float) -> float:
        """The centre nearest to the wanted one at which a column fits, to the right if in doubt."""
        right = self._pushed(top, halves, wanted, 1)
        left = self._pushed(top, halves, wanted, -1)
        return right if right - wanted <= wanted - left else left

    def _pushed(self, top: int, halves: Sequence[float], x: float, side: int) -> float:
        """The first centre at which nothing is in the way, going to one side. `settled` counts rows where it fits."""
        settled, row, count = 0, 0, len(halves)
        while settled < count:
            reach = halves[row] + ACROSS / 2
            end = self._end(top + row, x - reach, x + reach, side)
            if end is not None:
                x, settled = end + side * reach, 0
                continue
            settled += 1
            row = row + 1 if row + 1 < count else 0
        return x

    def _end(self, row: int, left: float, right: float, side: int) -> float | None:
        """Where what is in the way ends on that side; None if nothing is."""
        rights = self.rights[row]
        first = bisect_right(rights, left + ROUNDED)
        if first == len(rights) or self.lefts[row][first] >= right - ROUNDED:
            return None
        if side < 0:
            return self.lefts[row][first]
        return rights[bisect_left(self.lefts[row], right - ROUNDED) - 1]

    def take(self, top: int, halves: Sequence[float], x: float) -> None:
        """Let a column stand there."""
        for row, half in enumerate(halves, top):
            self._add(row, x - half - ACROSS / 2, x + half + ACROSS / 2)

    def _add(self, row: int, left: float, right: float) -> None:
        lefts, rights = self.lefts[row], self.rights[row]
        first = bisect_left(rights, left - USELESS)
        last = bisect_right(lefts, right + USELESS)
        if first < last:
            left, right = min(left, lefts[first]), max(right, rights[last - 1])
        lefts[first:last], rights[first:last] = [left], [right]


@dataclass(slots=True)
class Edge:
    """How far the rows reach to one side, kept in blocks too, so that many rows are asked at once."""

    reach: list[float]
    most: list[float] = field(init=False)
    whole: list[float] = field(init=False)  # what all rows of a block reach at least

    def __post_init__(self) -> None:
        self.most = [max(self.reach[i : i + BLOCK]) for i in range(0, len(self.reach), BLOCK)]
        self.whole = [float("-inf")] * len(self.most)

    def farthest(self, top: int, end: int) -> float:
        """How far any of the rows reaches."""
        first, last = -(-top // BLOCK), end // BLOCK
        if first >= last:
            return max(*self.reach[top:end], *self.whole[top // BLOCK : (end - 1) // BLOCK + 1])
        ends = [*self.reach[top : first * BLOCK], *self.reach[last * BLOCK : end]]
        return max(*self.most[first:last], *ends, *self.whole[top // BLOCK : (end - 1) // BLOCK + 1])

    def push(self, top: int, end: int, reach: float) -> None:
        """Let all of the rows reach that far; none reached farther."""
        first, last = -(-top // BLOCK), end // BLOCK
        if first >= last:
            first = last = end // BLOCK
            self._push_rows(top, end, reach)
        else:
            self._push_rows(top, first * BLOCK, reach)
            self._push_rows(last * BLOCK, end, reach)
        for block in range(first, last):
            self.most[block] = self.whole[block] = reach

    def _push_rows(self, top: int, end: int, reach: float) -> None:
        if top < end:
            self.reach[top:end] = [reach] * (end - top)
            for block in range(top // BLOCK, (end - 1) // BLOCK + 1):
                self.most[block] = max(self.most[block], reach)


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
