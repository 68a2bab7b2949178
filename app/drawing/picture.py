"""Small pictures of boxes and lines, laid out in layers, ordered by the mean position of linked boxes.

A line that skips layers has a bend in each of them, which takes space as a box does. `graph_layout` is linear, for
whole graphs; in small pictures its lines cross three times as often.
Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, pairwise
from statistics import fmean

import networkx as nx

from .graph_layout import BOX_GAP, LINE_WIDTH, ROW_GAP, GraphLayout

CHAR_WIDTH, LINE_HEIGHT, PADDING = 7.3, 16.0, 8.0
"""The width of a letter of 12 pixels, the height of a line of text, and the space around both."""
SWEEPS = 8
VALUE_WEIGHT = 0.1
"""The weight of values and constants in the mean; that of ops is 1, so that these line up."""


LayoutKey = tuple[tuple[tuple[bool, int, int], ...], tuple[tuple[int, int], ...]]
"""The properties that decide a layout: for each box whether it is an op, its lines of text and their width; lines."""


class BoxKind(Enum):
    """The subject of a box."""

    OP = "op"
    CONSTANT = "constant"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Box:
    """A box with a few lines of text; `tooltip` is shown in full on hover."""

    kind: BoxKind
    lines: tuple[str, ...]
    tooltip: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line from one box down to another, by their indices in the picture."""

    source: int
    target: int
    tooltip: str = ""


@dataclass(slots=True)
class Picture:
    """Boxes and lines, with no coordinates yet."""

    boxes: list[Box] = field(default_factory=list[Box])
    lines: list[Line] = field(default_factory=list[Line])

    def add(self, box: Box) -> int:
        """Add a box, and return its index."""
        self.boxes.append(box)
        return len(self.boxes) - 1

    def link(self, source: int, target: int, tooltip: str = "") -> None:
        """Add a line, once for each time the one box feeds the other."""
        self.lines.append(Line(source, target, tooltip))


def layout_key(picture: Picture) -> LayoutKey:
    """The key of a layout: pictures of one rewrite in each of a model's layers have the same."""
    boxes = ((box.kind is BoxKind.OP, len(box.lines), max(map(len, box.lines), default=0)) for box in picture.boxes)
    return tuple(boxes), tuple((line.source, line.target) for line in picture.lines)


def box_size(box: Box) -> tuple[float, float]:
    """Width and height."""
    return max(map(len, box.lines), default=0) * CHAR_WIDTH + 2 * PADDING, len(box.lines) * LINE_HEIGHT + PADDING


def picture_layout(picture: Picture) -> GraphLayout:
    """Lay out a picture without cycles from top to bottom. O(boxes + lines * layers)."""
    rows, routes = _layers(picture)
    sizes = dict.fromkeys(chain(*routes, *rows), (LINE_WIDTH, 0.0)) | dict(enumerate(map(box_size, picture.boxes)))
    widths = {p: width for p, (width, _) in sizes.items()}
    weights = {p: VALUE_WEIGHT for p, box in enumerate(picture.boxes) if box.kind is not BoxKind.OP}
    xs = _x_coordinates(rows, routes, widths, weights)
    ys: dict[int, float] = {}
    top = PADDING
    for row in rows:
        height = max(sizes[p][1] for p in row)
        ys.update(dict.fromkeys(row, top + height / 2))
        top += height + ROW_GAP
    left = min((xs[p] - widths[p] / 2 for p in xs), default=0.0) - PADDING
    points = {p: (x - left, ys[p]) for p, x in xs.items()}
    return GraphLayout(
        width=max((x + widths[p] / 2 for p, (x, _) in points.items()), default=0.0) + PADDING,
        height=max(top - ROW_GAP, 0.0) + PADDING,
        centres=[points[p] for p in range(len(picture.boxes))],
        paths=[tuple(points[p] for p in route) for route in routes],
    )


def _layers(picture: Picture) -> tuple[list[list[int]], list[list[int]]]:
    """The rows from the top, of boxes and of bends, and the boxes and bends of each line; bends follow the boxes.

    A row has the boxes of one distance to the bottom, along their longest paths.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(picture.boxes)))
    graph.add_edges_from((line.target, line.source) for line in picture.lines)
    rows = [list(row) for row in nx.topological_generations(graph)][::-1]
    depth = {p: i for i, row in enumerate(rows) for p in row}
    routes: list[list[int]] = []
    free = len(picture.boxes)
    for line in picture.lines:
        skipped = rows[depth[line.source] + 1 : depth[line.target]]
        for bend, row in enumerate(skipped, free):
            row.append(bend)
        routes.append([line.source, *range(free, free + len(skipped)), line.target])
        free += len(skipped)
    return rows, routes


def _x_coordinates(
    rows: list[list[int]], routes: list[list[int]], widths: Mapping[int, float], weights: Mapping[int, float]
) -> dict[int, float]:
    """The centre of each box and bend from left to right. The rows are put in order on the way."""
    above: dict[int, list[int]] = {p: [] for p in widths}
    below: dict[int, list[int]] = {p: [] for p in widths}
    for upper, lower in chain.from_iterable(map(pairwise, routes)):
        above[lower].append(upper)
        below[upper].append(lower)
    xs: dict[int, float] = {}
    for row in rows:
        xs.update(_without_overlap(row, [0.0] * len(row), widths))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        beside = above if down else below
        for row in rows if down else rows[::-1]:
            wanted = {
                p: fmean((xs[q] for q in beside[p]), (weights.get(q, 1.0) for q in beside[p])) if beside[p] else xs[p]
                for p in row
            }
            if sweep < SWEEPS // 2:
                row.sort(key=wanted.__getitem__)
            xs.update(_without_overlap(row, [wanted[p] for p in row], widths))
    return xs


def _without_overlap(row: Sequence[int], wanted: Sequence[float], widths: Mapping[int, float]) -> dict[int, float]:
    """Centres near the wanted ones with room between the boxes: the mean of pushing right and of pushing left."""
    right = _pushed_right(row, wanted, widths)
    left = [-x for x in _pushed_right(row[::-1], [-x for x in wanted[::-1]], widths)[::-1]]
    return {p: (a + b) / 2 for p, a, b in zip(row, right, left, strict=True)}


def _pushed_right(row: Sequence[int], wanted: Sequence[float], widths: Mapping[int, float]) -> list[float]:
    centres: list[float] = []
    edge = float("-inf")
    for p, x in zip(row, wanted, strict=True):
        centres.append(max(x, edge + widths[p] / 2))
        edge = centres[-1] + widths[p] / 2 + BOX_GAP
    return centres
