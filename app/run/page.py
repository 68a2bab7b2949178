"""Pages of runs, and the sections that pages of comparisons and profiles share with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ...core.pass_manager.report import Report
from ..drawing.graph_layout import GraphLayout
from ..drawing.picture import Box, LayoutKey, Line, Picture, layout_key, picture_layout
from ..drawing.svg import svg
from ..environment import versions
from ..pages import number_text
from ..pages.charts import paired_bar_chart
from ..pages.rendering import compress_json, render_template
from ..pages.tiles import Tile, VerdictBanner, size_tile
from ..terminal import plural
from ..verify.render import WRONG, verdict_lines
from ..visualization.visualization import GraphView, NodeView, Rewrite, Visualization

PictureKey = tuple[tuple[Box, ...], tuple[Line, ...]]
PictureIndex = tuple[int, int]
"""The chunk of a picture, and its index there."""
CHUNK_SIZE = 200
"""Pictures that a page decompresses together."""
MAX_BARS = 16
"""Types in the chart of ops; the table has all."""
OPTIONAL_FIELDS = ("mark", "rule", "details", "origin", "rewrites", "bodies")  # of nodes in the viewer


def run_page(report: Report, visualization: Visualization) -> str:
    """The page of `passes run`, as HTML."""
    summary = f"optimized with the pipeline {report.pipeline}"
    return page("run", report.source, summary, report.versions, run_tiles(report), report, visualization)


def page(
    command: str,
    source: str,
    summary: str,
    named_versions: dict[str, str],
    tiles: Iterable[Tile],
    report: Report | None,
    visualization: Visualization | None,
    **more: Any,
) -> str:
    """A page of any command as HTML: `tiles`, the rewrites and graphs of `visualization`, and `more` sections."""
    visualization = visualization or Visualization()
    rewrites, pictures = rewrite_data(visualization)
    graph = graph_data(visualization)
    sections: dict[str, Any] = {"comparison": None, "times": None, "lanes": "", **more}
    return render_template(
        "page.html",
        command=command,
        source=source,
        model=Path(source).name or source,
        summary=summary,
        versions=named_versions or versions(),
        tiles=list(tiles),
        report=report,
        verdict=verdict_banner(report) if report is not None else None,
        histogram=op_histogram(report) if report is not None else None,
        rules=rule_summaries(visualization),
        rewrites=compress_json(rewrites) if rewrites else "",
        pictures=[compress_json(chunk) for chunk in pictures],
        rewrite_count=len(rewrites),
        drawn_count=sum(r.before is not None for r in visualization.rewrites),
        graph=compress_json(graph) if graph is not None else "",
        **sections,
    )


def verdict_banner(report: Report) -> VerdictBanner:
    """The verdict of verification."""
    verdict = report.verification
    if verdict is not None and verdict.failure is not None:
        return VerdictBanner([f"{WRONG}: {verdict.failure}"], "bad")
    return VerdictBanner(list(verdict_lines(verdict)), "open" if verdict is None else "good")


def run_tiles(report: Report) -> Iterator[Tile]:
    """Sizes before and after, and the number of rewrites."""
    b, a = report.before, report.after
    yield size_tile("nodes", b.nodes, a.nodes, number_text.thousands(b.nodes), number_text.thousands(a.nodes))
    yield size_tile("file", b.bytes, a.bytes, number_text.size(b.bytes), number_text.size(a.bytes))
    yield size_tile(
        "parameters", b.parameters, a.parameters, number_text.compact(b.parameters), number_text.compact(a.parameters)
    )
    changes = sum(p.changes for p in report.passes)
    rules = sum(bool(n) for p in report.passes for n in p.rules.values())
    yield Tile("rewrites", number_text.thousands(changes), note=f"of {plural(rules, 'rule')}")
    left_out = len(report.quarantined) + len(report.unfit)
    if left_out:
        yield Tile(
            "left out", number_text.thousands(left_out), note="see below", tone="bad" if report.quarantined else ""
        )


@dataclass(slots=True)
class RuleSummary:
    """The rewrites of one rule, or of one pass without rules, by index."""

    pass_name: str
    name: str
    equation: str
    contract: str
    rewrites: list[int] = field(default_factory=list[int])
    nodes_saved: int = 0
    weight_bytes_saved: int = 0


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


def rule_summaries(visualization: Visualization) -> list[RuleSummary]:
    """The rules with their rewrites, those that save most nodes first."""
    rules: dict[tuple[str, str], RuleSummary] = {}
    for index, r in enumerate(visualization.rewrites):
        rule = rules.setdefault((r.pass_name, r.by), RuleSummary(r.pass_name, r.by, r.equation, r.contract))
        rule.rewrites.append(index)
        rule.nodes_saved += r.nodes_saved
        rule.weight_bytes_saved += r.weight_bytes_saved
    return sorted(rules.values(), key=lambda r: (-r.nodes_saved, -len(r.rewrites), r.name))


def rewrite_data(visualization: Visualization) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """The data of each rewrite, and the chunks of pictures to which `before` and `after` refer."""
    pool = PicturePool()
    return [_rewrite_entry(rewrite, pool) for rewrite in visualization.rewrites], pool.chunks


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


def graph_data(visualization: Visualization) -> dict[str, Any] | None:
    """The graphs before and after for the viewer, None if nothing is drawn."""
    if not visualization.before and not visualization.after:
        return None
    return {"before": _view_data(visualization.before), "after": _view_data(visualization.after)}


def _view_data(views: Sequence[GraphView]) -> list[dict[str, Any]]:
    return [
        {
            "title": view.title,
            "width": round(view.width, 1),
            "height": round(view.height, 1),
            "nodes": [_node_data(node) for node in view.nodes],
            "edges": [[e.source, e.target, e.name, *(round(c, 1) for p in e.points for c in p)] for e in view.edges],
            "undrawn": view.undrawn,
        }
        for view in views
    ]


def _node_data(node: NodeView) -> dict[str, Any]:
    """The name, box and non-empty optional fields of a node."""
    box = {field: round(getattr(node, field), 1) for field in ("x", "y", "width", "height")}
    more = {field: value for field in OPTIONAL_FIELDS if (value := getattr(node, field))}
    return {"name": node.name, "kind": node.kind, "title": node.title, **box, **more}


@dataclass(frozen=True, slots=True)
class OpCount:
    """The number of ops of a type, before and after."""

    op: str
    before: int
    after: int

    @property
    def change(self) -> int:
        """The difference."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Histogram:
    """All types, those that changed most first, and a chart of the first."""

    ops: list[OpCount]
    chart: Markup
    charted: int


def op_histogram(report: Report) -> Histogram | None:
    """The histogram of ops; None for a model without ops."""
    before, after = report.before.ops, report.after.ops
    ops = [OpCount(op, before.get(op, 0), after.get(op, 0)) for op in before.keys() | after.keys()]
    ops.sort(key=lambda o: (-abs(o.change), -o.before, o.op))
    first = ops[:MAX_BARS]
    if not first:
        return None
    chart = paired_bar_chart(
        "Ops by type, before and after",
        [o.op for o in first],
        [o.before for o in first],
        [o.after for o in first],
        lambda n: f"{n:,.0f}",
    )
    return Histogram(ops, chart, len(first))
