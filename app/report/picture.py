"""Small pictures of boxes and lines, laid out in layers, ordered by the mean position of linked boxes.

A line that skips layers has a bend in each of them, which takes space like a box. `graph_layout` is linear and for
whole graphs; in small pictures, its lines cross three times as often. The SVG is readable on light and dark
backgrounds, and loads nothing: lines and letters have the colour of the surrounding text. A page may set
`--passes-mark`, the colour of marked boxes, and `--passes-constant`, the colour of constants. Source: Sugiyama, Tagawa,
Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from itertools import chain, pairwise, repeat
from statistics import fmean

import networkx as nx
from msgspec import Struct

from .graph_layout import BOX_GAP, LINE_WIDTH, ROW_GAP, GraphLayout

CHAR_WIDTH, LINE_HEIGHT, PADDING = 7.3, 16.0, 8.0
"""The width of a letter with 12 pixels, the height of a line of text, and the space around both."""
SWEEPS = 8
VALUE_WEIGHT = 0.1
"""The weight of values and constants in the mean; ops have weight 1, so that they are aligned."""


LayoutKey = tuple[tuple[tuple[bool, int, int], ...], tuple[tuple[int, int], ...]]
"""The properties that determine a layout: of each box, whether it is an op, its rows and width of text; the lines."""


class BoxKind(Enum):
    """The meaning of a box."""

    OP = "op"
    CONSTANT = "constant"
    VALUE = "value"


MARK_COLOUR, CONSTANT_COLOUR = "var(--passes-mark, #f59e0b)", "var(--passes-constant, #3b82f6)"
FILLS = {
    BoxKind.OP: "fill: currentColor; fill-opacity: 0.06",
    BoxKind.CONSTANT: f"fill: {CONSTANT_COLOUR}; fill-opacity: 0.14",
}
FIRST_LINE, OTHER_LINES = 'font-weight="600"', 'fill-opacity="0.7"'
ARROW_SIZE = 4.0
MIN_SCALE = 0.7
"""The minimum scale at which a picture is readable."""


class Box(Struct, frozen=True):
    """A box with a few lines of text; `tooltip` is shown in full on hover."""

    kind: BoxKind
    lines: tuple[str, ...]
    tooltip: str = ""
    marked: bool = False


class Line(Struct, frozen=True):
    """A line from a box down to another, given by their indices in the picture."""

    source: int
    target: int
    tooltip: str = ""


@dataclass(slots=True)
class Picture:
    """Boxes and lines, without coordinates."""

    boxes: list[Box] = field(default_factory=list[Box])
    lines: list[Line] = field(default_factory=list[Line])

    def add(self, box: Box) -> int:
        """Add a box, and return its index."""
        self.boxes.append(box)
        return len(self.boxes) - 1

    def link(self, source: int, target: int, tooltip: str = "") -> None:
        """Add a line; call once for each time that one box feeds the other."""
        self.lines.append(Line(source, target, tooltip))


def layout_key(picture: Picture) -> LayoutKey:
    """The key of a layout; pictures of one rewrite in all layers of a model have the same key."""
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
    """The rows from the top, of boxes and bends, and the boxes and bends of each line; bends are numbered after boxes.

    A row has the boxes whose longest path to the bottom has the same length.
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
    """The horizontal centre of each box and bend. Also sorts the rows."""
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
    """Centres near the wanted ones, with space between the boxes: the mean of pushing right and pushing left."""
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


def svg(picture: Picture, title: str, layout: GraphLayout | None = None) -> str:
    """The picture as one inline `<svg>` element with its own size; `layout`, if already known."""
    layout = layout or picture_layout(picture)
    size = (
        f'width="{layout.width:.0f}" height="{layout.height:.0f}" style="min-width: {MIN_SCALE * layout.width:.0f}px"'
    )
    boxes = "".join(_box(box, x, y) for box, (x, y) in zip(picture.boxes, layout.centres, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="passes-picture" role="img" aria-label="{_escaped(title)}" '
        f'viewBox="0 0 {layout.width:.0f} {layout.height:.0f}" {size} '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12" fill="currentColor">'
        f"{''.join(_lines(picture, layout))}{boxes}</svg>"
    )


def _lines(picture: Picture, layout: GraphLayout) -> list[str]:
    drawn: list[str] = []
    for line, path in zip(picture.lines, layout.paths, strict=True):
        (x0, y0), *bends, (x1, y1) = path
        start = y0 + box_size(picture.boxes[line.source])[1] / 2
        end = y1 - box_size(picture.boxes[line.target])[1] / 2
        points = [(x0, start), *bends, (x1, end - ARROW_SIZE)]
        drawn.append(
            f'<path d="{_curve(points)}" fill="none" stroke="currentColor" stroke-opacity="0.6">'
            f"{_title_element(line.tooltip)}</path>"
            f'<path d="M{x1 - ARROW_SIZE:.1f} {end - 2 * ARROW_SIZE:.1f}h{2 * ARROW_SIZE:.1f}'
            f'L{x1:.1f} {end:.1f}z" fill-opacity="0.6"/>'
        )
    return drawn


def _curve(points: list[tuple[float, float]]) -> str:
    """A curve that leaves and reaches each point vertically."""
    curve = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        curve += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    return curve


def _box(box: Box, x: float, y: float) -> str:
    width, height = box_size(box)
    frame = ""
    if box.kind is not BoxKind.VALUE:
        fill = f"fill: {MARK_COLOUR}; fill-opacity: 0.22; stroke: {MARK_COLOUR}" if box.marked else FILLS[box.kind]
        dashes = ' stroke-dasharray="4 3"' if box.kind is BoxKind.CONSTANT else ""
        frame = (
            f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" '
            f'stroke="currentColor"{dashes} style="{fill}"/>'
        )
    first = y - height / 2 + PADDING / 2 + 0.75 * LINE_HEIGHT
    texts = "".join(
        f'<text x="{x:.1f}" y="{first + i * LINE_HEIGHT:.1f}" text-anchor="middle" {style}>{_escaped(line)}</text>'
        for i, (line, style) in enumerate(zip(box.lines, chain([FIRST_LINE], repeat(OTHER_LINES)), strict=False))
    )
    return f"<g>{_title_element(box.tooltip)}{frame}{texts}</g>"


def _title_element(text: str) -> str:
    return f"<title>{_escaped(text)}</title>" if text else ""


def _escaped(text: str) -> str:
    """The text for XML, with replacements for characters that XML cannot contain; names may be any bytes."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))
