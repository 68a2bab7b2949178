"""Tables of a comparison of quantized models."""

from __future__ import annotations

from rich.filesize import decimal
from rich.table import Table

from ..number_text import compact, duration, ratio_with_bounds
from ..quantize.render import score_text
from ..terminal import Terminal, add_row, plural
from .quantized_comparison import QuantizedComparison, QuantizedRow
from .render import plain_table
from .row import OURS

EMPTY_CELL = "-"


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
    samples = ", ".join(f"{n} for {what}" for what, n in report.samples.items())
    terminal.line(f"samples: {samples}; {report.figure}: on those for report; time: of the original's, under ORT ALL")
    terminal.line(f"{plural(report.threads, 'thread')}, onnxruntime {report.versions['onnxruntime']}; {report.machine}")
    terminal.lines(f"left out: {name}, {why}" for name, why in report.skipped.items())


def outcome_table(report: QuantizedComparison) -> Table:
    """Size, memory, accuracy and the outcome of each row."""
    table = plain_table("", "disk", "memory", "peak", report.figure, "outcome")
    for row in report.rows:
        memory = [EMPTY_CELL] * 2
        if row.measured is not None and not row.measured.failure:
            memory = [decimal(row.measured.resident_bytes), decimal(row.measured.peak_bytes)]
        figure = score_text(report.figure, row.score) or EMPTY_CELL
        _add_row(table, row, decimal(row.bytes) if row.bytes else EMPTY_CELL, *memory, figure, row.outcome)
    return table


def speed_table(report: QuantizedComparison, batch: int) -> Table:
    """Times of a call, and samples per second."""
    what = "one sample" if batch == 1 else f"batch of {batch}"
    table = plain_table(what, "p50", "p95", "p99", "samples\na second", "time")
    for row in report.rows:
        latency = row.measured.latencies.get(batch) if row.measured is not None else None
        if latency is not None:
            ratio = ratio_with_bounds(row.ratios[batch]) if batch in row.ratios else ""
            times = map(duration, (latency.median, latency.p95, latency.p99))
            _add_row(table, row, *times, compact(latency.throughput), ratio)
    return table


def _add_row(table: Table, row: QuantizedRow, *cells: str) -> None:
    add_row(table, row.label, *cells, style="bold" if row.label == OURS else "")
