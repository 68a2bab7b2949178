"""Pages of comparisons of quantized models."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from rich.filesize import decimal

from ..optimize.page import page
from ..quantize.render import score_text
from ..report.charts import Bar, Chart, Curve, Point, accuracy_chart, bar_chart, size_text
from ..report.tile import Tile, latency_tile, size_tile
from .comparison_report import AS_FAST, FASTER, ORIGINAL, OURS, QuantizedComparison, QuantizedRow
from .render_quantized import row_cells, speed_rows


def quantized_comparison_page(report: QuantizedComparison) -> str:
    """The page of `passes compare --quantized`."""
    return page(
        "compare",
        report.source,
        f"quantized in {len(report.rows) - 1} ways, within {report.budget} of the {report.figure}",
        report.versions,
        comparison_tiles(report),
        quantized_comparison=report,
        quantized_rows=[(row, row_tone(row), row_cells(report, row)) for row in report.rows],
        quantized_speeds=[
            (batch, [(row, row_tone(row), cells) for row, cells in speed_rows(report, batch)])
            for batch in report.batches
        ],
        quantized_charts=[*front_chart(report), *size_chart(report)],
    )


def row_tone(row: QuantizedRow) -> str:
    """The tone of a row: of our own, of the original, or whether another is usable."""
    if row.label in {ORIGINAL, OURS}:
        return "baseline" if row.label == ORIGINAL else "ours"
    return "plain" if row.outcome in {FASTER, AS_FAST} else "wrong"


def comparison_tiles(report: QuantizedComparison) -> Iterator[Tile]:
    """The latency and the size of our result."""
    first, ours = report.rows[0], next((r for r in report.rows if r.label == OURS), None)
    if ours is not None and not ours.failure:
        yield from (latency_tile(ratio) for ratio in list(ours.ratios.values())[:1])
        yield size_tile("file", first.bytes, ours.bytes)
        yield Tile(
            report.figure, score_text(report.figure, ours.score) or "exact", score_text(report.figure, first.score)
        )


def front_chart(report: QuantizedComparison) -> Iterator[Chart]:
    """Accuracy against latency of all rows that have both."""
    placed = [(row_tone(row), place) for row in report.rows if (place := _place(row)) is not None]
    if len(placed) < 2:
        return
    curves = [Curve([p for t, p in placed if t == tone], tone) for tone in ("wrong", "plain", "baseline", "ours")]
    yield accuracy_chart(report.figure, "for report", curves)


def size_chart(report: QuantizedComparison) -> Iterator[Chart]:
    """The bytes of all models."""
    bars = [Bar(row.label, row.bytes, decimal(row.bytes), tone=row_tone(row)) for row in report.rows if row.bytes]
    title = "Size on disk"
    yield title, "with weights; less is better", bar_chart(title, bars, size_text)


def _place(row: QuantizedRow) -> Point | None:
    """The latency and the figure of a row that has both."""
    ratio = 1.0 if row.label == ORIGINAL else next((r.ratio for r in row.ratios.values()), None)
    if ratio is None or row.failure or row.score is None or not isfinite(row.score.figure):
        return None
    return ratio, row.score.figure
