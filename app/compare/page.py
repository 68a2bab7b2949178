"""Pages of comparisons: charts and tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from rich.filesize import decimal

from ...core.run.report import Report
from ..optimize.page import page
from ..optimize.tiles import run_tiles
from ..report.charts import Bar, Chart, bar_chart, size_text
from ..report.number_text import duration
from ..report.tile import LATENCY, Tile, latency_tile
from ..report.visualization import Visualization
from .comparison_report import OURS, ComparisonReport, Row


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
        comparison=comparison,
        rows=[(row, row_tone(row, comparison)) for row in comparison.rows],
        charts=list(comparison_charts(comparison)),
    )


def compare_tiles(report: ComparisonReport) -> Iterator[Tile]:
    """The latency of our result divided by that of the original, both under ORT ALL."""
    ours = report.row_of(OURS, online=True)
    interval = ours.ratios.get(report.batches[0]) if ours is not None and report.batches else None
    if wrong := report.wrong_under_ort_all(OURS):
        yield Tile(LATENCY, "wrong", note=f"onnxruntime, about {wrong}: no time counts", tone="bad")
    elif interval is not None:
        yield latency_tile(interval)


def comparison_charts(report: ComparisonReport) -> Iterator[Chart]:
    """The charts that have bars."""
    tones = [(row, row_tone(row, report)) for row in report.rows]
    for batch in report.batches:
        measured = [(r, tone, r.measured.latencies.get(batch)) for r, tone in tones if r.measured is not None]
        bars = [
            Bar(r.label, x.median, duration(x.median), x.median_low, x.median_high, tone)
            for r, tone, x in measured
            if x is not None
        ]
        if bars:
            title = f"Latency, {'one sample' if batch == 1 else f'{batch} samples'}"
            yield title, "median, with its 95 % interval; less is better", bar_chart(title, bars, duration)
    written = [(r, tone, r.stats) for r, tone in tones if not r.online]
    sizes = [Bar(r.label, s.bytes, decimal(s.bytes), tone=tone) for r, tone, s in written if s is not None]
    if sizes:
        chart = bar_chart("Bytes on disk", sizes, size_text)
        yield "Bytes on disk", "weights included", chart
    final = [(r, tone, r.online_stats or r.stats) for r, tone in tones]
    nodes = [Bar(r.label, s.nodes, f"{s.nodes:,}", tone=tone) for r, tone, s in final if s is not None]
    if nodes:
        chart = bar_chart("Nodes that run", nodes, "{:,.0f}".format)
        yield "Nodes that run", "bodies included, Constant ops not", chart


def row_tone(row: Row, report: ComparisonReport) -> str:
    """The style of a row."""
    if row.is_unusable:
        return "wrong"
    if row is report.rows[report.baseline]:
        return "baseline"
    return "ours" if row.made_by == OURS else "plain"
