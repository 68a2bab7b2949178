"""Charts as SVG: pygal places bars, points, intervals and labels; the page's style colours them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from rich.filesize import decimal

from ...core.support.printable_text import printable
from .picture_text import cut_end

if TYPE_CHECKING:
    from markupsafe import Markup

PLOT_HEIGHT = 300
WIDTH, ROW_HEIGHT, PAIR_HEIGHT, FONT_SIZE = 560, 34, 40, 13
AXIS_HEIGHT, MARGIN = 34, 12
"""The space below for the axis, and beside labels and numbers, which are wider than pygal assumes."""
REMOVED_TAGS = {"defs", "desc", "title"}
"""Elements for pygal's scripts and styles, which pages do not contain."""

Point = tuple[float, float]
four_digits = "{:.4g}".format


class Bar(Struct, frozen=True):
    """A bar with its label, its number as text, its interval, and its style `tone`."""

    label: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None
    tone: str = ""


class BarChart(Struct, frozen=True):
    """One bar per row; `axis` formats the numbers of the axis."""

    title: str
    note: str
    bars: Sequence[Bar]
    axis: Callable[[float], str]

    def svg(self) -> Markup:
        """The drawing."""
        points = [_point(b) for b in self.bars]
        return _render_chart(self.title, [b.label for b in self.bars], [("", points)], self.axis, ROW_HEIGHT)


class PairedBarChart(Struct, frozen=True):
    """Two bars per row: a label, and the numbers before and after."""

    title: str
    note: str
    rows: Sequence[tuple[str, int, int]]
    axis: Callable[[float], str]

    def svg(self) -> Markup:
        """The drawing."""
        sides = {"before": [row[1] for row in self.rows], "after": [row[2] for row in self.rows]}
        series = [(tone, [_point(Bar("", n, self.axis(n), tone=tone)) for n in side]) for tone, side in sides.items()]
        return _render_chart(self.title, [row[0] for row in self.rows], series, self.axis, PAIR_HEIGHT)


class Curve(Struct, frozen=True):
    """Points (x, y) with the style `tone`: dots, or `joined` by a line, with the area below if `filled`."""

    points: Sequence[tuple[float, float]]
    tone: str = ""
    joined: bool = False
    filled: bool = False


class PlaneChart(Struct, frozen=True):
    """Curves, drawn in order, with names and number formats of both axes.

    `ticks` are numbers on the y axis; by default they are chosen automatically.
    """

    title: str
    note: str
    curves: Sequence[Curve]
    axes: tuple[str, str]
    texts: tuple[Callable[[float], str], Callable[[float], str]]
    ticks: Sequence[float] = ()

    def svg(self) -> Markup:
        """The drawing."""
        pygal, style = _pygal()
        graph = pygal.XY(
            width=WIDTH, height=PLOT_HEIGHT, margin=MARGIN, margin_right=3 * MARGIN,
            style=style.Style(label_font_size=FONT_SIZE, major_label_font_size=FONT_SIZE, title_font_size=FONT_SIZE),
            js=(), css=(), disable_xml_declaration=True, show_legend=False, stroke=False, dots_size=5, min_scale=2,
            max_scale=5, x_title=self.axes[0], y_title=self.axes[1], x_value_formatter=self.texts[0],
            value_formatter=self.texts[1],
        )  # fmt: skip
        graph.y_labels = list(self.ticks) or None
        for c in self.curves:
            points = [{"value": p, "node": {"class": f"dot {c.tone}".strip()}} for p in c.points]
            graph.add("", points, stroke=c.joined, show_dots=not c.joined, fill=c.filled)
        graph.add_xml_filter(self._clean)
        return _rendered(graph)

    def _clean(self, root: Any) -> Any:
        """The drawing with the tones of the curves."""
        _strip_svg(root, self.title)
        for group in root.iter("g"):
            words = group.get("class", "").split()
            if words[:1] == ["series"]:
                group.set("class", f"series {self.curves[int(words[1].removeprefix('serie-'))].tone}".strip())
        return root


Chart = BarChart | PairedBarChart | PlaneChart


def front_chart(
    title: str,
    note: str,
    curves: Sequence[Curve],
    axes: tuple[str, str],
    texts: tuple[Callable[[float], str], Callable[[float], str]],
    *,
    is_less_better: bool = False,
) -> PlaneChart:
    """Curves, with a line through the points that no other point beats: with smaller x, and larger (or smaller) y."""
    sign = -1 if is_less_better else 1
    front = [(x, sign * y) for x, y in pareto_front((x, sign * y) for c in curves for x, y in c.points)]
    joined = [Curve(front, "front", joined=True)] if len(front) > 1 else []
    return PlaneChart(title, note, [*joined, *(c for c in curves if c.points)], axes, texts)


def accuracy_chart(figure: str, samples: str, curves: Sequence[Curve]) -> PlaneChart:
    """An accuracy figure against the latency relative to the original, on the named samples."""
    return front_chart(
        f"{figure} against latency",
        f"on the samples {samples}; the upper left is best; the line joins the models that no other model beats",
        curves,
        ("latency relative to the original", figure),
        (four_digits, four_digits),
    )


def size_text(size: float) -> str:
    """A number of bytes for an axis."""
    return decimal(round(size))


def pareto_front(points: Iterable[Point]) -> list[Point]:
    """The points such that no other has both a smaller x and a larger y, ordered by x."""
    front: list[Point] = []
    for point in sorted(points, key=lambda p: (p[0], -p[1])):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return front


def _point(bar: Bar) -> dict[str, Any]:
    point: dict[str, Any] = {
        "value": bar.value,
        "formatter": lambda _, text=bar.text: text,
        "node": {"class": f"bar {bar.tone}".strip()},
    }
    if bar.low is not None and bar.high is not None:
        point["ci"] = {"low": bar.low, "high": bar.high}
    return point


def _render_chart(
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
        width=WIDTH, height=row * len(labels) + AXIS_HEIGHT, margin=0, margin_left=MARGIN, spacing=6,
        margin_right=longest * FONT_SIZE * 0.62 + 2 * MARGIN,
        style=style.Style(label_font_size=FONT_SIZE, value_font_size=FONT_SIZE, major_label_font_size=FONT_SIZE),
        js=(), css=(), disable_xml_declaration=True, show_legend=False, print_values=True, zero=0, min_scale=2,
        max_scale=4, range=(0, farthest) if farthest > 0 else None, rounded_bars=2, value_formatter=axis,
        truncate_label=-1,
    )  # fmt: skip
    graph.x_labels = [cut_end(printable(label)) for label in labels][::-1]  # pygal draws from the bottom up
    for name, points in series:
        graph.add(name, points[::-1])
    graph.add_xml_filter(lambda root: _align_numbers(_strip_svg(root, title)))
    return _rendered(graph)


def _rendered(graph: Any) -> Markup:
    from markupsafe import Markup  # noqa: PLC0415 - only for pages

    return Markup(graph.render(is_unicode=True))  # noqa: S704 - serialized from a tree, which escapes


def _pygal() -> tuple[Any, Any]:
    """Pygal and its styles, which have no types, without its plugin importer, which causes warnings in Python 3.11."""
    pygal, style = importlib.import_module("pygal"), importlib.import_module("pygal.style")
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]
    return pygal, style


def _strip_svg(root: Any, title: str) -> Any:
    """The drawing without scripts, styles, tooltips, dates and addresses."""
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag in REMOVED_TAGS or "tooltip" in child.get("class", ""):
                parent.remove(child)
    root.attrib.pop("id", None)
    root.attrib.update({"role": "img", "aria-label": printable(title), "class": "chart"})
    return root


def _align_numbers(root: Any) -> Any:
    """Place the numbers of bars in a separate column."""
    plot = next(g for g in root.iter("g") if g.get("class") == "plot")  # texts are placed relative to its left edge
    plot_left = float(plot.get("transform").removeprefix("translate(").split(",")[0])
    for text in root.iter("text"):
        if text.get("class") == "value":
            text.set("x", str(WIDTH - plot_left - 2))
            text.set("text-anchor", "end")
    return root
