"""Pages of runs, and the sections that pages of comparisons and profiles share with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ...core.run.report import Report, Savings
from ..registry.environment import versions
from ..report.charts import paired_bar_chart
from ..report.graph_layout import GraphLayout, Point
from ..report.picture import Box, LayoutKey, Line, Picture, layout_key, picture_layout, svg
from ..report.rendering import compress_json, render_template
from ..report.tile import Tile
from ..report.visualization import GraphView, NodeView, Rewrite, Visualization
from ..verify.render import WRONG, verdict_lines
from .render import op_changes, race_text
from .tiles import run_tiles

PictureKey = tuple[tuple[Box, ...], tuple[Line, ...]]
PictureIndex = tuple[int, int]
"""The chunk of a picture, and its index there."""
CHUNK_SIZE = 200
"""Pictures that a page decompresses together."""
MAX_BARS = 16
"""Types in the chart of ops; the table has all."""
SECTIONS = ("comparison", "quantized_comparison", "profile", "quantization", "batch", "tuning", "lanes")
"""Content of pages of single commands, which others do not have."""
OPTIONAL_FIELDS = ("mark", "rule", "details", "origin", "rewrites", "bodies")  # of nodes in the viewer


def run_page(report: Report, visualization: Visualization) -> str:
    """The page of `passes run`, as HTML."""
    lost = len(report.speed.lost) if report.speed is not None else 0
    summary = f"optimized with the pipeline {report.pipeline}"
    if report.speed is not None and 0 < lost == len(report.speed.races):
        summary = "as it was: the optimized model was slower"
    return page("run", report.source, summary, report.versions, run_tiles(report), report, visualization)


def page(
    command: str,
    source: str,
    summary: str,
    named_versions: dict[str, str],
    tiles: Iterable[Tile],
    report: Report | None = None,
    visualization: Visualization | None = None,
    **more: Any,
) -> str:
    """A page of any command as HTML: `tiles`, the rewrites and graphs of `visualization`, and `more` sections."""
    visualization = visualization or Visualization()
    rewrites, pictures = rewrite_data(visualization)
    graph = {"before": _view_data(visualization.before), "after": _view_data(visualization.after)}
    sections: dict[str, Any] = dict.fromkeys(SECTIONS) | more
    return render_template(
        "page.html",
        command=command,
        source=source,
        model=Path(source).name or source,
        summary=summary,
        versions=named_versions or versions(),
        tiles=list(tiles),
        report=report,
        race_text=race_text,
        verdict=verdict_banner(report) if report is not None else None,
        histogram=op_histogram(report) if report is not None else None,
        rules=rewrites_by_rule(visualization.rewrites),
        rewrites=compress_json(rewrites) if rewrites else "",
        pictures=[compress_json(chunk) for chunk in pictures],
        rewrite_count=len(rewrites),
        drawn_count=sum(r.before is not None for r in visualization.rewrites),
        graph=compress_json(graph) if any(graph.values()) else "",
        **sections,
    )


def verdict_banner(report: Report) -> tuple[str, list[str]]:
    """The tone (good, open or bad) and the lines of the verdict of verification."""
    verdict = report.verification
    if verdict is not None and verdict.failure is not None:
        return "bad", [f"{WRONG}: {verdict.failure}"]
    return "open" if verdict is None else "good", list(verdict_lines(verdict))


@dataclass(slots=True)
class PicturePool:
    """Pictures as SVG, without duplicates; pictures that differ only in their texts share a layout."""

    chunks: list[list[str]] = field(default_factory=list[list[str]])
    indices: dict[PictureKey, PictureIndex] = field(default_factory=dict[PictureKey, PictureIndex])
    layouts: dict[LayoutKey, GraphLayout] = field(default_factory=dict[LayoutKey, GraphLayout])

    def index(self, picture: Picture | None) -> PictureIndex | None:
        """The index of a picture in `chunks`."""
        if picture is None:
            return None
        shape = tuple(picture.boxes), tuple(picture.lines)
        if shape not in self.indices:
            self.indices[shape] = divmod(len(self.indices), CHUNK_SIZE)
            if self.indices[shape][1] == 0:
                self.chunks.append([])
            key = layout_key(picture)
            if key not in self.layouts:
                self.layouts[key] = picture_layout(picture)
            self.chunks[-1].append(svg(picture, "a piece of the graph", self.layouts[key]))
        return self.indices[shape]


def rewrites_by_rule(rewrites: Sequence[Rewrite]) -> list[tuple[Rewrite, list[int], Savings]]:
    """The first rewrite of each rule, the indices of all, and their savings; rules that save most nodes first."""
    indices: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, r in enumerate(rewrites):
        indices[r.change.pass_name, r.change.by].append(index)
    found = [
        (rewrites[own[0]], own, sum((Savings.of_change(rewrites[i].change) for i in own), Savings()))
        for own in indices.values()
    ]
    return sorted(found, key=lambda rule: (-rule[2].nodes, -len(rule[1]), rule[0].change.by))


def rewrite_data(visualization: Visualization) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """The data of each rewrite, and the chunks of pictures to which `before` and `after` refer."""
    pool = PicturePool()
    return [_rewrite_entry(rewrite, pool) for rewrite in visualization.rewrites], pool.chunks


def _rewrite_entry(r: Rewrite, pool: PicturePool) -> dict[str, Any]:
    return {
        "ordinal": r.change.ordinal,
        "pass": r.change.pass_name,
        "by": r.change.by,
        "equation": r.equation,
        "contract": r.contract,
        "place": r.change.place,
        "replaced": r.change.replaced,
        "made": r.change.made,
        "nodes": r.change.nodes_saved,
        "bytes": r.change.weight_bytes_saved,
        "before": pool.index(r.before),
        "after": pool.index(r.after),
    }


def _view_data(views: Sequence[GraphView]) -> list[dict[str, Any]]:
    return [
        {
            "title": view.title,
            "width": round(view.layout.width, 1),
            "height": round(view.layout.height, 1),
            "nodes": [_node_data(*node) for node in zip(view.nodes, view.layout.centres, strict=True)],
            "edges": [
                [link.source, link.target, link.name, *(round(c, 1) for point in path for c in point)]
                for link, path in zip(view.links, view.layout.paths, strict=True)
            ],
            "undrawn": view.undrawn,
        }
        for view in views
    ]


def _node_data(node: NodeView, centre: Point) -> dict[str, Any]:
    """The name, box and non-empty optional fields of a node."""
    box = dict(zip(("x", "y", "width", "height"), (*centre, node.width, node.height), strict=True))
    more = {field: value for field in OPTIONAL_FIELDS if (value := getattr(node, field))}
    rounded = {field: round(number, 1) for field, number in box.items()}
    return {"name": node.name, "kind": node.kind, "title": node.title, **rounded, **more}


def op_histogram(report: Report) -> tuple[list[tuple[str, int, int]], Markup] | None:
    """The ops of each type before and after, those that changed most first, and a chart of the first.

    None for a model without ops.
    """
    ops = op_changes(report)
    return (ops, paired_bar_chart("Ops by type, before and after", ops[:MAX_BARS], "{:,.0f}".format)) if ops else None
