"""Pages of comparisons: charts and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from markupsafe import Markup

from ...core.pass_manager.report import Report
from ..pages import number_text
from ..pages.charts import Bar, bar_chart
from ..pages.tiles import Tile, latency_tile
from ..run.page import page, run_tiles
from ..visualization.visualization import Visualization
from .comparison_report import OURS, ComparisonReport, Row


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """A row of the tables, with its name and colour tone."""

    name: str
    tone: str
    row: Row


@dataclass(frozen=True, slots=True)
class ComparisonSection:
    """A comparison with its charts, None for those without bars."""

    report: ComparisonReport
    rows: list[ComparisonRow]
    latency: list[tuple[int, Markup]]
    size: Markup | None
    nodes: Markup | None


def comparison_section(report: ComparisonReport) -> ComparisonSection:
    """The section of a comparison."""
    rows = [ComparisonRow(row.label, _tone(row, report), row) for row in report.rows]
    latency: list[tuple[int, Markup]] = []
    for batch in report.batches:
        found = ((r, r.row.measured.latencies.get(batch)) for r in rows if r.row.measured is not None)
        bars = [
            Bar(r.name, x.median, number_text.duration(x.median), x.median_low, x.median_high, r.tone)
            for r, x in found
            if x is not None
        ]
        samples = "one sample" if batch == 1 else f"{batch} samples"
        if bars:
            latency.append((batch, bar_chart(f"Latency, {samples}", bars, number_text.duration)))
    sizes = [
        Bar(r.name, stats.bytes, number_text.size(stats.bytes), tone=r.tone)
        for r in rows
        if (stats := r.row.stats) is not None and not r.row.online
    ]
    nodes = [
        Bar(r.name, stats.nodes, number_text.thousands(stats.nodes), tone=r.tone)
        for r in rows
        if (stats := r.row.online_stats or r.row.stats) is not None
    ]
    return ComparisonSection(
        report,
        rows,
        latency,
        bar_chart("Bytes on disk", sizes, lambda n: number_text.size(round(n))) if sizes else None,
        bar_chart("Nodes that run", nodes, lambda n: f"{n:,.0f}") if nodes else None,
    )


def _tone(row: Row, report: ComparisonReport) -> str:
    if row.is_unusable:
        return "wrong"
    if row is report.rows[report.baseline]:
        return "baseline"
    return "ours" if row.made_by == OURS else "plain"


def compare_page(comparison: ComparisonReport, report: Report, visualization: Visualization | None) -> str:
    """The page of `passes compare`; `report` and `visualization` are those of our own run."""
    return page(
        "compare",
        comparison.source,
        f"compared: {len(comparison.rows)} ways to run it, ours with the pipeline {comparison.pipeline}",
        comparison.versions,
        chain(compare_tiles(comparison), run_tiles(report)),
        report,
        visualization,
        comparison=comparison_section(comparison),
    )


def compare_tiles(report: ComparisonReport) -> Iterator[Tile]:
    """The latency of our result divided by that of the original, both under ORT ALL."""
    ours = report.row_of(OURS, online=True)
    batch = report.batches[0] if report.batches else 0
    if wrong := report.wrong_under_ort_all(OURS):
        yield Tile("latency under ORT ALL", "wrong", note=f"onnxruntime, about {wrong}: no time counts", tone="bad")
    elif ours is not None and batch in ours.ratios:
        yield latency_tile(ours.ratios[batch], "latency under ORT ALL")
