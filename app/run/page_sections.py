"""Every rewrite of a run, by rule: words for the list, and pictures for those that are opened.

The whole model as data for the viewer: what a node is, where it stands, and what it is linked with.

Ops by type, before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from ...core.pass_manager.report import Report
from ..drawing.graph_layout import GraphLayout
from ..drawing.picture import Box, Line, Picture
from ..drawing.picture_layout import LayoutKey, layout_key, picture_layout
from ..drawing.svg import svg
from ..pages.charts import paired_bar_chart
from ..visualization.visualization import EdgeView, GraphView, NodeView, Rewrite, Visualization

PictureKey = tuple[tuple[Box, ...], tuple[Line, ...]]
PictureIndex = tuple[int, int]
"""Which sheaf of pictures it is in, and where in that."""
CHUNK_SIZE = 200
"""Pictures that a page unpacks at once, when one of them is looked at."""


@dataclass(slots=True)
class RuleSummary:
    """What one rule, or one pass without rules, did in all."""

    pass_name: str
    name: str
    equation: str
    contract: str
    rewrites: list[int] = field(default_factory=list[int])
    nodes_saved: int = 0
    weight_bytes_saved: int = 0


@dataclass(slots=True)
class PicturePool:
    """Pictures as SVG; those that are the same are one, and those that differ in words are laid out once."""

    chunks: list[list[str]] = field(default_factory=list[list[str]])
    indices: dict[PictureKey, PictureIndex] = field(default_factory=dict[PictureKey, PictureIndex])
    layouts: dict[LayoutKey, GraphLayout] = field(default_factory=dict[LayoutKey, GraphLayout])

    def index(self, picture: Picture | None) -> PictureIndex | None:
        """Where in `chunks` it is."""
        if picture is None:
            return None
        shape = tuple(picture.boxes), tuple(picture.lines)
        if shape not in self.indices:
            self.indices[shape] = divmod(len(self.indices), CHUNK_SIZE)
            if self.indices[shape][1] == 0:
                self.chunks.append([])
            self.chunks[-1].append(svg(picture, "a piece of the graph", self._layout(picture)))
        return self.indices[shape]

    def _layout(self, picture: Picture) -> GraphLayout:
        frame = layout_key(picture)
        if frame not in self.layouts:
            self.layouts[frame] = picture_layout(picture)
        return self.layouts[frame]


def rule_summaries(visualization: Visualization) -> list[RuleSummary]:
    """The rules with their rewrites by place in the story, those that save most nodes first."""
    rules: dict[tuple[str, str], RuleSummary] = {}
    for place, r in enumerate(visualization.rewrites):
        rule = rules.setdefault((r.pass_name, r.by), RuleSummary(r.pass_name, r.by, r.equation, r.contract))
        rule.rewrites.append(place)
        rule.nodes_saved += r.nodes_saved
        rule.weight_bytes_saved += r.weight_bytes_saved
    return sorted(rules.values(), key=lambda r: (-r.nodes_saved, -len(r.rewrites), r.name))


def rewrite_data(visualization: Visualization) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """What is said of each rewrite, and the pictures that `before` and `after` give the places of."""
    gallery = PicturePool()
    return [_rewrite_entry(rewrite, gallery) for rewrite in visualization.rewrites], gallery.chunks


def _rewrite_entry(r: Rewrite, pool: PicturePool) -> dict[str, Any]:
    return {
        "ordinal": r.ordinal,
        "pass": r.pass_name,
        "by": r.by,
        "equation": r.equation,
        "contract": r.contract,
        "place": r.place,
        "replaced": r.replaced,
        "made": r.made,
        "nodes": r.nodes_saved,
        "bytes": r.weight_bytes_saved,
        "before": pool.index(r.before),
        "after": pool.index(r.after),
    }


OPTIONAL_FIELDS = ("mark", "rule", "details", "origin", "rewrites", "bodies")


def graph_data(visualization: Visualization) -> dict[str, Any] | None:
    """Both sides, None where nothing is drawn."""
    if not visualization.before and not visualization.after:
        return None
    return {"before": _view_data(visualization.before), "after": _view_data(visualization.after)}


def _view_data(sheets: Sequence[GraphView]) -> list[dict[str, Any]]:
    return [
        {
            "title": sheet.title,
            "width": round(sheet.width, 1),
            "height": round(sheet.height, 1),
            "nodes": [_node_data(node) for node in sheet.nodes],
            "edges": [_edge_data(edge) for edge in sheet.edges],
            "undrawn": sheet.undrawn,
        }
        for sheet in sheets
    ]


def _node_data(node: NodeView) -> dict[str, Any]:
    """Its place, and of the rest what there is to say."""
    box = {"x": round(node.x, 1), "y": round(node.y, 1), "width": round(node.width, 1), "height": round(node.height, 1)}
    more = {field: value for field in OPTIONAL_FIELDS if (value := getattr(node, field))}
    return {"name": node.name, "kind": node.kind, "title": node.title, **box, **more}


def _edge_data(edge: EdgeView) -> list[Any]:
    """Source, target, name, and the points, x and y in turns."""
    return [edge.source, edge.target, edge.name, *(round(c, 1) for point in edge.points for c in point)]


MOST_BARS = 16
"""Types in the chart; all are in the table."""


@dataclass(frozen=True, slots=True)
class OpCount:
    """How many ops of a type there were, and are."""

    op: str
    before: int
    after: int

    @property
    def change(self) -> int:
        """How many more there are."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Histogram:
    """All types, those that changed most first, and a chart of the first of them."""

    ops: list[OpCount]
    chart: Markup
    charted: int


def op_histogram(report: Report) -> Histogram | None:
    """None for a model with no ops."""
    before, after = report.before.ops, report.after.ops
    ops = [OpCount(op, before.get(op, 0), after.get(op, 0)) for op in before.keys() | after.keys()]
    ops.sort(key=lambda o: (-abs(o.change), -o.before, o.op))
    first = ops[:MOST_BARS]
    if not first:
        return None
    drawn = paired_bar_chart(
        "Ops by type, before and after",
        [o.op for o in first],
        [o.before for o in first],
        [o.after for o in first],
        lambda n: f"{n:,.0f}",
    )
    return Histogram(ops, drawn, len(first))
