"""Bar charts as SVG: pygal places bars, intervals and labels, the page's own style paints them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ..drawing.picture_text import beginning
from ..terminal import printable

WIDTH, ROW, PAIR, LETTER = 560, 34, 40, 13
AXIS, EDGE = 34, 12
"""The room for the axis below, and that beside labels and numbers, which come out wider than pygal thinks."""
UNWANTED = {"defs", "desc", "title"}
"""Parts that pygal adds for its own scripts and styles, which are not there."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar with its label, the number as it is said, the interval around it, and `tone`: how the page paints it."""

    label: str
    value: float
    said: str
    low: float | None = None
    high: float | None = None
    tone: str = ""


def chart(title: str, bars: Sequence[Bar], axis: Callable[[float], str]) -> Markup:
    """One bar a row; `axis` says the numbers below."""
    return _drawn(title, [b.label for b in bars], [("", [_point(b) for b in bars])], axis, ROW)


def paired_chart(
    title: str, labels: Sequence[str], before: Sequence[int], after: Sequence[int], axis: Callable[[float], str]
) -> Markup:
    """Two bars a row, before and after."""
    series = [
        (tone, [_point(Bar("", n, axis(n), tone=tone)) for n in numbers])
        for tone, numbers in (("before", before), ("after", after))
    ]
    return _drawn(title, labels, series, axis, PAIR)


def _point(bar: Bar) -> dict[str, Any]:
    point: dict[str, Any] = {
        "value": bar.value,
        "formatter": lambda _, said=bar.said: said,
        "node": {"class": f"bar {bar.tone}".strip()},
    }
    if bar.low is not None and bar.high is not None:
        point["ci"] = {"low": bar.low, "high": bar.high}
    return point


def _drawn(
    title: str,
    labels: Sequence[str],
    series: Sequence[tuple[str, list[dict[str, Any]]]],
    axis: Callable[[float], str],
    row: int,
) -> Markup:
    pygal, style = _pygal()
    longest = max(len(point["formatter"](None)) for _, points in series for point in points)
    farthest = max(point.get("ci", {}).get("high", point["value"]) for _, points in series for point in points)
    graph = pygal.HorizontalBar(
        width=WIDTH, height=row * len(labels) + AXIS, margin=0, margin_left=EDGE, spacing=6,
        margin_right=longest * LETTER * 0.62 + 2 * EDGE,
        style=style.Style(label_font_size=LETTER, value_font_size=LETTER, major_label_font_size=LETTER),
        js=(), css=(), disable_xml_declaration=True, show_legend=False, print_values=True, zero=0, min_scale=2,
        max_scale=4, range=(0, farthest) if farthest > 0 else None, rounded_bars=2, value_formatter=axis,
    )  # fmt: skip
    graph.x_labels = [beginning(printable(label)) for label in labels][::-1]  # it begins at the bottom
    for name, points in series:
        graph.add(name, points[::-1])
    graph.add_xml_filter(lambda root: _plain(root, title))
    return Markup(graph.render(is_unicode=True))  # noqa: S704 - serialized from a tree, which escapes


def _pygal() -> tuple[Any, Any]:
    """Pygal and its styles, which have no types.

    It leaves an importer behind for its plugins, of a kind that Python 3.11 warns of at every later import.
    """
    pygal, style = importlib.import_module("pygal"), importlib.import_module("pygal.style")
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]
    return pygal, style


def _plain(root: Any, title: str) -> Any:
    """The drawing alone: no scripts, styles, tooltips, dates and addresses; numbers in a column of their own."""
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag in UNWANTED or "tooltip" in child.get("class", ""):
                parent.remove(child)
    for text in root.iter("text"):
        if text.get("class") == "value":
            text.set("x", str(WIDTH - _left(root) - 2))
            text.set("text-anchor", "end")
    root.attrib.pop("id", None)
    root.attrib.update({"role": "img", "aria-label": title, "class": "chart"})
    return root


def _left(root: Any) -> float:
    """Where the plot begins: its texts are placed from there."""
    plot = next(g for g in root.iter("g") if g.get("class") == "plot")
    return float(plot.get("transform").removeprefix("translate(").split(",")[0])
