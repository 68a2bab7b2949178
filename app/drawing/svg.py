"""A picture as SVG: readable on light and dark, with nothing to load.

Lines and letters have the colour of the text around them. A page may set `--passes-mark`, the colour of marked boxes,
and `--passes-constant`, that of constants.
"""

from __future__ import annotations

from itertools import chain, pairwise, repeat
from xml.sax.saxutils import escape, quoteattr

from .graph_layout import GraphLayout
from .picture import LINE_HEIGHT, PADDING, Box, BoxKind, Picture, box_size, picture_layout

MARK_COLOUR, CONSTANT_COLOUR = "var(--passes-mark, #f59e0b)", "var(--passes-constant, #3b82f6)"
FILLS = {
    BoxKind.OP: "fill: currentColor; fill-opacity: 0.06",
    BoxKind.CONSTANT: f"fill: {CONSTANT_COLOUR}; fill-opacity: 0.14",
}
FIRST_LINE, OTHER_LINES = 'font-weight="600"', 'fill-opacity="0.7"'
ARROW_SIZE = 4.0
MIN_SCALE = 0.7
"""The least scale at which a picture can be read."""


def svg(picture: Picture, title: str, layout: GraphLayout | None = None) -> str:
    """The picture as one inline `<svg>` element of its own size; `layout`, if it is known already."""
    layout = layout or picture_layout(picture)
    size = (
        f'width="{layout.width:.0f}" height="{layout.height:.0f}" style="min-width: {MIN_SCALE * layout.width:.0f}px"'
    )
    label = quoteattr(_printable(title))
    boxes = "".join(_box(box, x, y) for box, (x, y) in zip(picture.boxes, layout.centres, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="passes-picture" role="img" aria-label={label} '
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
    """A curve that leaves and reaches each point straight down."""
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
    return escape(_printable(text))


def _printable(text: str) -> str:
    """The text, with replacements for all that XML cannot hold: names may be any bytes."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
