"""Layout of small pictures in layers, ordered by the mean position of linked boxes.

A line that skips layers has a bend in each of them, which takes space as a box does. `graph_layout` is linear, for
whole graphs; in small pictures its lines cross three times as often.
Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import networkx as nx

from .graph_layout import BOX_GAP, LINE_WIDTH, ROW_GAP
from .picture import Box, BoxKind, Picture


@dataclass(frozen=True, slots=True)
class Layers:
    """`rows` from the top: the indices of boxes, and of bends from the number of boxes on.

    `routes`: the boxes and bends of each line; `above` and `below`: those that each of them is linked with.
    """

    rows: list[list[int]]
    routes: list[list[int]]
    above: dict[int, list[int]]
    below: dict[int, list[int]]


def assign_layers(picture: Picture) -> Layers:
    """The layers of a picture without cycles. O(boxes + lines * layers)."""
    rows = _layer_rows(picture)
    depth = {p: i for i, row in enumerate(rows) for p in row}
    routes: list[list[int]] = []
    free = len(picture.boxes)
    for line in picture.lines:
        bends = list(range(free, free + depth[line.target] - depth[line.source] - 1))
        free += len(bends)
        for bend, row in zip(bends, rows[depth[line.source] + 1 :], strict=False):
            row.append(bend)
        routes.append([line.source, *bends, line.target])
    above: dict[int, list[int]] = {p: [] for p in range(free)}
    below: dict[int, list[int]] = {p: [] for p in range(free)}
    for upper, lower in (pair for route in routes for pair in pairwise(route)):
        above[lower].append(upper)
        below[upper].append(lower)
    return Layers(rows, routes, above, below)


def _layer_rows(picture: Picture) -> list[list[int]]:
    """The boxes by the length of their longest path to the bottom, the longest first."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(picture.boxes)))
    graph.add_edges_from((line.target, line.source) for line in picture.lines)
    rows: list[list[int]] = [list(row) for row in nx.topological_generations(graph)]
    return rows[::-1]


CHAR_WIDTH, LINE_HEIGHT, PADDING = 7.3, 16.0, 8.0
"""The width of a letter of 12 pixels, the height of a line of text, and the space around both."""
SWEEPS = 8
VALUE_WEIGHT = 0.1
"""The weight of values and constants in the mean; that of ops is 1, so that these line up."""


@dataclass(frozen=True, slots=True)
class PictureLayout:
    """A picture with coordinates: the centres of its boxes, and the points that each line runs through."""

    width: float
    height: float
    centres: tuple[tuple[float, float], ...]
    paths: tuple[tuple[tuple[float, float], ...], ...]


LayoutKey = tuple[tuple[tuple[bool, int, int], ...], tuple[tuple[int, int], ...]]
"""All that a layout depends on: of boxes whether they are ops and the number and width of their texts; and lines."""


def layout_key(picture: Picture) -> LayoutKey:
    """The key of a layout: pictures of one rewrite in each of a model's layers have the same."""
    boxes = ((box.kind is BoxKind.OP, len(box.lines), max(map(len, box.lines), default=0)) for box in picture.boxes)
    return tuple(boxes), tuple((line.source, line.target) for line in picture.lines)


def box_size(box: Box) -> tuple[float, float]:
    """Width and height."""
    return max(map(len, box.lines), default=0) * CHAR_WIDTH + 2 * PADDING, len(box.lines) * LINE_HEIGHT + PADDING


def picture_layout(picture: Picture) -> PictureLayout:
    """The picture laid out from top to bottom."""
    layers = assign_layers(picture)
    sizes = dict.fromkeys(layers.above, (LINE_WIDTH, 0.0)) | {p: box_size(box) for p, box in enumerate(picture.boxes)}
    widths = {p: width for p, (width, _) in sizes.items()}
    xs = _x_coordinates(layers, widths, [VALUE_WEIGHT if box.kind is not BoxKind.OP else 1.0 for box in picture.boxes])
    ys: dict[int, float] = {}
    top = PADDING
    for row in layers.rows:
        height = max(sizes[p][1] for p in row)
        ys.update(dict.fromkeys(row, top + height / 2))
        top += height + ROW_GAP
    left = min((xs[p] - widths[p] / 2 for p in xs), default=0.0) - PADDING
    points = {p: (x - left, ys[p]) for p, x in xs.items()}
    return PictureLayout(
        width=max((x + widths[p] / 2 for p, (x, _) in points.items()), default=0.0) + PADDING,
        height=max(top - ROW_GAP, 0.0) + PADDING,
        centres=tuple(points[p] for p in range(len(picture.boxes))),
        paths=tuple(tuple(points[p] for p in route) for route in layers.routes),
    )


def _x_coordinates(layers: Layers, widths: dict[int, float], weights: Sequence[float]) -> dict[int, float]:
    """The centre of each box and bend from left to right. The rows are put in order on the way."""
    weight = dict.fromkeys(widths, 1.0) | dict(enumerate(weights))
    xs: dict[int, float] = {}
    for row in layers.rows:
        xs.update(_without_overlap(row, [0.0] * len(row), widths))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        beside = layers.above if down else layers.below
        for row in layers.rows if down else layers.rows[::-1]:
            wanted = {
                p: fmean((xs[q] for q in beside[p]), (weight[q] for q in beside[p])) if beside[p] else xs[p]
                for p in row
            }
            if sweep < SWEEPS // 2:
                row.sort(key=wanted.__getitem__)
            xs.update(_without_overlap(row, [wanted[p] for p in row], widths))
    return xs


def _without_overlap(row: Sequence[int], wanted: Sequence[float], widths: dict[int, float]) -> dict[int, float]:
    """Centres near the wanted ones with room between the boxes: the mean of pushing right and of pushing left."""
    right = _pushed_right(row, wanted, widths)
    left = [-x for x in _pushed_right(row[::-1], [-x for x in wanted[::-1]], widths)[::-1]]
    return {p: (a + b) / 2 for p, a, b in zip(row, right, left, strict=True)}


def _pushed_right(row: Sequence[int], wanted: Sequence[float], widths: dict[int, float]) -> list[float]:
    centres: list[float] = []
    edge = float("-inf")
    for p, x in zip(row, wanted, strict=True):
        centres.append(max(x, edge + widths[p] / 2))
        edge = centres[-1] + widths[p] / 2 + BOX_GAP
    return centres
