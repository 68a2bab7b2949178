"""The document of a comparison of quantized models."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from rich.filesize import decimal

from ..measure.agreement import score_text
from ..measure.metrics import load_note
from ..quantize.document import samples_text
from ..report.charts import Bar, BarChart, Chart, Curve, Point, accuracy_chart, size_text
from ..report.document import (
    Block,
    Charts,
    Document,
    Lines,
    Section,
    Table,
    TableRow,
    Tile,
    latency_tile,
    size_tile,
    table,
)
from ..report.number_text import plural, ratio_with_bounds
from .comparison_report import AS_FAST, FASTER, ORIGINAL, OURS, QuantizedComparison, QuantizedRow
from .document import EMPTY_CELL, batch_text, call_cells

LEGEND = {
    "ours": OURS,
    "baseline": "original",
    "plain": "others within the budget and not slower",
    "wrong": "over the budget, slower, invalid or failed",
}


def describe(report: QuantizedComparison) -> Document:
    """Size, memory, accuracy and speed of all models, and the conditions."""
    ours = next((row for row in report.rows if row.label == OURS), None)
    samples = samples_text(report.samples)
    blocks: list[Block] = [
        Charts([*front_chart(report), size_chart(report)], LEGEND),
        outcome_table(report),
        *(speed_table(report, batch) for batch in report.batches),
        Lines([f"{row.label}: {row.failure}" for row in report.rows if row.failure]),
        Lines([f"{row.label}: {row.description}" for row in report.rows if row.label == OURS]),
        Lines([*filter(None, [load_note(row.measured for row in report.rows)]), *report.notes], "note"),
        Lines(
            [
                f"samples: {samples}; {report.figure}: on the report samples; time: relative to the original's",
                f"{plural(report.threads, 'thread')}, onnxruntime {report.versions['onnxruntime']}; {report.machine}",
            ]
        ),
        Lines([f"{name}, {why}" for name, why in report.skipped.items()], "left out"),
    ]
    return Document(
        "passes compare",
        report.source,
        f"{OURS}: {ours.outcome}" if ours is not None else f"{OURS} produced no model",
        "good" if ours is not None and row_is_usable(ours) else "bad",
        summary=f"quantized in {len(report.rows) - 1} ways, within {report.budget} of the {report.figure}",
        tiles=[*comparison_tiles(report, ours)],
        blocks=[Section("comparison", "Comparison", blocks)],
        footer=[*(f"{name} {version}" for name, version in report.versions.items()), report.machine],
    )


def comparison_tiles(report: QuantizedComparison, ours: QuantizedRow | None) -> Iterator[Tile]:
    """The latency, the size and the figure of our result."""
    first = report.rows[0]
    if ours is not None and not ours.failure:
        yield from (latency_tile(ratio) for ratio in list(ours.ratios.values())[:1])
        yield size_tile("file", first.bytes, ours.bytes)
        score, before = (score_text(report.figure, row.score) for row in (ours, first))
        yield Tile(report.figure, score or "exact", before)


def front_chart(report: QuantizedComparison) -> Iterator[Chart]:
    """Accuracy against latency, for all rows that have both."""
    placed = [(row_tone(row), place) for row in report.rows if (place := _place(row)) is not None]
    if len(placed) > 1:
        curves = [Curve([p for t, p in placed if t == tone], tone) for tone in ("wrong", "plain", "baseline", "ours")]
        yield accuracy_chart(report.figure, "for report", curves)


def size_chart(report: QuantizedComparison) -> BarChart:
    """The bytes of all models."""
    bars = [Bar(row.label, row.bytes, decimal(row.bytes), tone=row_tone(row)) for row in report.rows if row.bytes]
    return BarChart("Size on disk", "with weights; less is better", bars, size_text)


def outcome_table(report: QuantizedComparison) -> Table:
    """Size, memory, accuracy and the outcome of each row."""
    rows = list[TableRow]()
    for row in report.rows:
        measured = row.measured if row.measured is not None and not row.measured.failure else None
        memory = ["", ""] if measured is None else [decimal(measured.resident_bytes), decimal(measured.peak_bytes)]
        lost = row.score.loss_text(report.budget) if row.score is not None and row.label != ORIGINAL else ""
        figure = score_text(report.figure, row.score)
        cells = [decimal(row.bytes) if row.bytes else "", *memory, (figure, f"loss {lost}") if lost else figure]
        rows.append(TableRow([row.label, *(cell or EMPTY_CELL for cell in cells), row.outcome], row_tone(row)))
    headings = ("made by", "disk", "memory", "peak", report.figure, "outcome")
    return table("Outcomes", headings, rows, texts=["outcome"])


def speed_table(report: QuantizedComparison, batch: int) -> Table:
    """The time of a call, and samples per second."""
    rows = list[TableRow]()
    for row in report.rows:
        latency = row.measured.latencies.get(batch) if row.measured is not None else None
        if latency is not None:
            ratio = ratio_with_bounds(row.ratios[batch]) if batch in row.ratios else ""
            rows.append(TableRow([row.label, *call_cells(latency), ratio], row_tone(row)))
    headings = (batch_text(batch), "p50", "p99", "samples\na second", "time")
    return table(f"Speed, {batch_text(batch)}", headings, rows)


def row_tone(row: QuantizedRow) -> str:
    """The tone of a row: ours, the baseline, or whether it is usable."""
    if row.label in {ORIGINAL, OURS}:
        return "baseline" if row.label == ORIGINAL else "ours"
    return "plain" if row_is_usable(row) else "wrong"


def row_is_usable(row: QuantizedRow) -> bool:
    """Whether a row is within the budget, and not slower than the original."""
    return row.outcome in {FASTER, AS_FAST}


def _place(row: QuantizedRow) -> Point | None:
    """The latency and the figure of a row, if it has both."""
    ratio = 1.0 if row.label == ORIGINAL else next((r.ratio for r in row.ratios.values()), None)
    if ratio is None or row.failure or row.score is None or not isfinite(row.score.figure):
        return None
    return ratio, row.score.figure
