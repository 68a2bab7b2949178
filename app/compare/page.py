"""A comparison of optimizers as charts and tables."""

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
    """A row of the tables: its name, how it stands out, and the row."""

    name: str
    tone: str
    row: Row


@dataclass(frozen=True, slots=True)
class ComparisonSection:
    """A comparison with its charts, None where nothing was measured."""

    report: ComparisonReport
    rows: list[ComparisonRow]
    latency: list[tuple[int, Markup]]
    size: Markup | None
    nodes: Markup | None


def comparison_section(report: ComparisonReport) -> ComparisonSection:
    """The comparison as the page has it."""
    lines = [ComparisonRow(row.label, _tone(row, report), row) for row in report.rows]
    latency = [(batch, list(_latency_bars(lines, batch))) for batch in report.batches]
    sizes = [
        Bar(line.name, a.bytes, number_text.size(a.bytes), tone=line.tone)
        for line in lines
        if (a := line.row.stats) is not None and not line.row.online
    ]
    nodes = [
        Bar(line.name, a.nodes, number_text.thousands(a.nodes), tone=line.tone)
        for line in lines
        if (a := line.row.online_stats or line.row.stats) is not None
    ]
    return ComparisonSection(
        report,
        lines,
        [(b, bar_chart(f"Latency, {_samples_text(b)}", bars, number_text.duration)) for b, bars in latency if bars],
        bar_chart("Bytes on disk", sizes, lambda n: number_text.size(round(n))) if sizes else None,
        bar_chart("Nodes that run", nodes, lambda n: f"{n:,.0f}") if nodes else None,
    )


def _samples_text(batch: int) -> str:
    return "one sample" if batch == 1 else f"{batch} samples"


def _latency_bars(lines: list[ComparisonRow], batch: int) -> Iterator[Bar]:
    for line in lines:
        measured = line.row.measured
        latency = measured.latencies.get(batch) if measured is not None else None
        if latency is not None:
            said = number_text.duration(latency.median)
            yield Bar(line.name, latency.median, said, latency.median_low, latency.median_high, line.tone)


def _tone(row: Row, compared: ComparisonReport) -> str:
    """Ours and what is wrong stand out; the baseline is told apart."""
    if row.is_unusable:
        return "wrong"
    if row is compared.rows[compared.baseline]:
        return "baseline"
    return "ours" if row.made_by == OURS else "plain"


def compare_page(comparison: ComparisonReport, report: Report, visualization: Visualization) -> str:
    """The page of `passes compare`; `report` and `visualization` are those of our own run."""
    tiles = chain(compare_tiles(comparison), run_tiles(report))
    done = f"compared: {len(comparison.rows)} ways to run it, ours with the pipeline {comparison.pipeline}"
    return page(
        "compare",
        comparison.source,
        done,
        comparison.versions,
        tiles,
        report,
        visualization,
        comparison=comparison_section(comparison),
    )


def compare_tiles(report: ComparisonReport) -> Iterator[Tile]:
    """How fast our result is in the end, beside the original under the same optimization of onnxruntime's."""
    ours = report.row_of(OURS, online=True)
    batch = report.batches[0] if report.batches else 0
    if wrong := report.wrong_under_ort_all(OURS):
        yield Tile("latency under ORT ALL", "wrong", note=f"onnxruntime, about {wrong}: no time counts", tone="bad")
    elif ours is not None and batch in ours.ratios:
        yield latency_tile(ours.ratios[batch], "latency under ORT ALL")
