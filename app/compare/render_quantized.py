"""Tables of a comparison of quantized models."""

from __future__ import annotations

from collections.abc import Iterator

from rich.filesize import decimal
from rich.table import Table

from ..quantize.render import samples_text, score_text
from ..report.number_text import ratio_with_bounds
from ..report.terminal import Terminal, add_row, plural
from .comparison_report import OURS, QuantizedComparison, QuantizedRow
from .render import EMPTY_CELL, batch_text, call_cells, plain_table


def show_quantized_comparison(terminal: Terminal, report: QuantizedComparison) -> None:
    """Print the tables; details are in the JSON."""
    terminal.line(f"{report.source}, within {report.budget} of the {report.figure}", "bold")
    terminal.table(outcome_table(report))
    for batch in report.batches:
        terminal.table(speed_table(report, batch))
    for row in report.rows:
        if row.failure:
            terminal.line(f"{row.label}: {row.failure}")
    terminal.lines(f"{row.label}: {row.description}" for row in report.rows if row.label == OURS)
    terminal.lines(f"note: {note}" for note in report.notes)
    samples = samples_text(report.samples)
    terminal.line(f"samples: {samples}; {report.figure}: on those for report; time: of the original's, under ORT ALL")
    terminal.line(f"{plural(report.threads, 'thread')}, onnxruntime {report.versions['onnxruntime']}; {report.machine}")
    terminal.lines(f"left out: {name}, {why}" for name, why in report.skipped.items())


def outcome_table(report: QuantizedComparison) -> Table:
    """Size, memory, accuracy and the outcome of each row."""
    table = plain_table("", "disk", "memory", "peak", report.figure, "outcome")
    for row in report.rows:
        _add_row(table, row, *(cell or EMPTY_CELL for cell in row_cells(report, row)), row.outcome)
    return table


def speed_table(report: QuantizedComparison, batch: int) -> Table:
    """Times of a call, and samples per second."""
    table = plain_table(batch_text(batch), "p50", "p95", "p99", "samples\na second", "time")
    for row, cells in speed_rows(report, batch):
        _add_row(table, row, *cells)
    return table


def row_cells(report: QuantizedComparison, row: QuantizedRow) -> list[str]:
    """Disk, memory, its peak, and the figure of accuracy of a row; "" where it has none."""
    measured = row.measured if row.measured is not None and not row.measured.failure else None
    memory = ["", ""] if measured is None else [decimal(measured.resident_bytes), decimal(measured.peak_bytes)]
    return [decimal(row.bytes) if row.bytes else "", *memory, score_text(report.figure, row.score)]


def speed_rows(report: QuantizedComparison, batch: int) -> Iterator[tuple[QuantizedRow, list[str]]]:
    """The rows with times for a batch: p50, p95, p99, samples a second, and the time to that of the original."""
    for row in report.rows:
        latency = row.measured.latencies.get(batch) if row.measured is not None else None
        if latency is not None:
            ratio = ratio_with_bounds(row.ratios[batch]) if batch in row.ratios else ""
            yield row, [*call_cells(latency), ratio]


def _add_row(table: Table, row: QuantizedRow, *cells: str) -> None:
    add_row(table, row.label, *cells, style="bold" if row.label == OURS else "")
