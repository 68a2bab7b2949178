"""Tables of a comparison, none wider than 80 characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.filesize import decimal
from rich.table import Table

from ..measure.metrics import Latency
from ..report.card import Card
from ..report.number_text import compact, duration, ratio_with_bounds
from ..report.terminal import Terminal, add_row, plural
from ..verify.render import BIT_IDENTICAL, INVALID, WITHIN_TOLERANCE, WRONG
from .comparison_report import OURS, ComparisonReport, Row, offline_online_pairs

EMPTY_CELL = "-"
NAME_WIDTH = 13  # characters of the first column
MAX_SYMBOL_LENGTH = 12  # characters of a dim in a cell


def show_comparison_report(terminal: Terminal, report: ComparisonReport) -> None:
    """Print the tables; details are in the JSON."""
    terminal.line(report.source, "bold")
    terminal.line(headline(report))
    rows = report.rows
    tables = [verdict_table(rows), size_table(rows), *(speed_table(report, batch) for batch in report.batches)]
    tables.append(loading_table(rows))
    if report.online_optimizations:
        tables.append(online_optimization_table(report))
    for table in tables:
        terminal.table(table)
    if any(_has_error(row) for row in rows):
        terminal.line("errors: divided by the largest magnitude of that output; in brackets, by the allowed error")
    if any(row.ratios for row in rows):
        terminal.line("time against: with its 95 % interval; where that holds 1, no difference was measured")
    for line in (*operator_lines(report), *failure_lines(rows), *condition_lines(report)):
        terminal.line(line)


def headline(report: ComparisonReport) -> str:
    """The gain by this optimizer, in a sentence."""
    written, online = (report.row_of(OURS, online=o) for o in (False, True))
    original = report.rows[0].stats
    if written is None or online is None or written.stats is None or original is None:
        return f"{OURS} made nothing that can be run"
    start = f"{OURS}: {original.nodes} -> {written.stats.nodes} nodes, {verdict_word(written)}"
    if wrong := report.wrong_under_ort_all(OURS):
        return f"{start}; ORT ALL is wrong about {wrong}, so no time counts"
    ratio = next(iter(online.ratios.values()), None)
    if ratio is None:
        return f"{start}; nothing was measured under ORT ALL"
    relation = "of" if ratio.is_significant else "to"
    return f"{start}; with ORT ALL {ratio_with_bounds(ratio)} {relation} the original's time"


def comparison_card(report: ComparisonReport) -> Card:
    """The card of a comparison of optimizers."""
    folds = [("Verdicts", verdict_table(report.rows)), ("Sizes", size_table(report.rows))]
    folds += [(f"Speed, batch of {batch}", speed_table(report, batch)) for batch in report.batches]
    ours = [row for row in report.rows if row.made_by == OURS]
    tone = "bad" if not ours or any(row.is_unusable for row in ours) else "good" if report.is_verified else "open"
    notes = [line.strip() for line in failure_lines(report.rows)]
    return Card("passes compare", report.source, tone, headline(report), notes=notes, folds=folds)


def verdict_table(rows: Sequence[Row]) -> Table:
    """The verdict on each file as written and under ORT ALL, and the kind of file."""
    table = plain_table("Right?", "as written", "then ORT ALL", "checker", "portable")
    for written, online in offline_online_pairs(rows):
        kind, stats = [EMPTY_CELL, EMPTY_CELL], written.stats
        if stats is not None:
            kind = [INVALID if stats.checker_error else "valid", "yes" if stats.is_portable else "no"]
        then = _verdict_cell(online) if online is not None else ""
        _add_row(table, written.made_by, _verdict_cell(written), then, *kind)
    return table


def size_table(rows: Sequence[Row]) -> Table:
    """The size of each file, and the time to make it."""
    table = plain_table("Size", "nodes", "op types", "parameters", "bytes", "optimizing")
    for row, _ in offline_online_pairs(rows):
        cells, stats = [EMPTY_CELL] * 4, row.stats
        if stats is not None:
            cells = [str(stats.nodes), str(len(stats.ops)), f"{stats.parameters:,}", decimal(stats.bytes)]
        took = EMPTY_CELL if row.seconds is None else duration(row.seconds)
        _add_row(table, row.made_by, *cells, "" if row.made_by == rows[0].made_by else took)
    return table


def speed_table(report: ComparisonReport, batch: int) -> Table:
    """Times of a call, and samples per second."""
    times = ("median", "95 %", "99 %")
    table = plain_table(f"Speed,\n{batch_text(batch)}", *times, "samples\na second", "time against\noriginal, ORT ALL")
    for online, title in ((False, "as written:"), (True, "then ORT ALL:")):
        add_row(table, title, *[""] * 5, style="dim")
        for i, row in enumerate(report.rows):
            if row.online is online:
                _add_row(table, row.made_by, *_speed_cells(row, batch, is_baseline=i == report.baseline))
        if not online:
            add_row(table, "", *[""] * 5)
    return table


def loading_table(rows: Sequence[Row]) -> Table:
    """The time to create a session, and memory of a process that has run it."""
    table = plain_table("Loading", "as\nwritten", "memory", "peak", "then\nORT ALL", "memory", "peak")
    for written, online in offline_online_pairs(rows):
        cells = _loading_cells(online) if online is not None else [""] * 3
        _add_row(table, written.made_by, *_loading_cells(written), *cells)
    return table


def online_optimization_table(report: ComparisonReport) -> Table:
    """The nodes that onnxruntime's own optimizer removes, its cost and its gain."""
    table = plain_table("Left for ORT", "nodes", "removed", "added\nloading", "time with it\nagainst without")
    for left in report.online_optimizations:
        time = EMPTY_CELL if left.latency_ratio is None else ratio_with_bounds(left.latency_ratio)
        extra = duration(left.extra_creation_seconds)
        _add_row(table, left.made_by, str(left.nodes), str(left.nodes - left.nodes_after), extra, time)
    return table


def operator_lines(report: ComparisonReport) -> Iterator[str]:
    """The numbers of ops that onnxruntime makes of the original and of our result, and of others that it runs."""
    counts = report.online_operators
    made = [f"{c.name} {c.made_from_original} -> {c.made_from_result}" for c in counts if c.is_made]
    others = [f"{c.name} {c.original} -> {c.result}" for c in counts if not c.is_made]
    if made:
        yield f"fused or inserted by onnxruntime, original -> {OURS}: {', '.join(made)}"
    if others:
        yield f"other operators that run under ORT ALL, original -> {OURS}: {', '.join(others)}"


def failure_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The failures, each once with the labels of its rows, and advice."""
    labels: dict[str, list[str]] = {}
    for row in rows:
        if row.is_unusable:
            is_wrong = row.verdict is not None and not row.failure
            text = f"{WRONG}: {row.verdict.wrong}" if is_wrong and row.verdict else f"fails: {row.failure}"
            if row.verdict is not None and row.verdict.is_refused:
                text = row.verdict.wrong
            labels.setdefault(text, []).append(row.label)
        if row.stats is not None and row.stats.checker_error and not row.online:
            labels.setdefault(f"{INVALID}: {row.stats.checker_error}", []).append(row.label)
    for text, names in labels.items():
        yield text
        yield f"    {', '.join(names)}"
    yield from (f"to find the fault: {text}" for text in dict.fromkeys(row.advice for row in rows if row.advice))


def condition_lines(report: ComparisonReport) -> Iterator[str]:
    """The conditions of verification and measurement."""
    yield report.verification + (
        f"; verifying {OURS}'s run took {report.seconds['verifying']:.1f} s" if "verifying" in report.seconds else ""
    )
    ran = sorted({p for row in report.rows if row.measured is not None for p in row.measured.providers})
    missing = "" if not ran or report.provider in ran else f", nothing on {report.provider}"
    yield f"ran on {', '.join(ran) or report.provider}{missing}, {plural(report.threads, 'thread')}; {report.machine}"
    if report.session:
        yield f"all sessions, and what is called ORT ALL, have these settings: {report.session}"
    yield ", ".join(f"{name} {version}" for name, version in report.versions.items())
    if report.sizes:
        yield f"measured with {', '.join(f'{name}={size}' for name, size in report.sizes.items())}"
    yield from (f"note: {note}" for note in (report.batch_note, *report.notes) if note)
    yield from (f"left out: {name}, {why}" for name, why in report.skipped_tools.items())
    if report.models_folder:
        yield f"files kept in {report.models_folder}"


def verdict_word(row: Row) -> str:
    """The verdict on a row in a word or two."""
    verdict = row.verdict
    if row.failure:
        return "fails"
    if verdict is None:
        return "not verified"
    if verdict.wrong and verdict.edge_case:  # the message has long symbols, a cell has no room
        place = verdict.edge_case if len(verdict.edge_case) <= MAX_SYMBOL_LENGTH else "a size of 0"
        return f"{'fails' if verdict.is_refused else WRONG} at {place}"
    if verdict.wrong:
        return WRONG
    return BIT_IDENTICAL if verdict.is_exact else WITHIN_TOLERANCE


def batch_text(batch: int) -> str:
    """The samples of a call."""
    return "one sample" if batch == 1 else f"batch of {batch}"


def call_cells(latency: Latency) -> list[str]:
    """The median time of a call, its 95th and 99th percentile, and samples a second."""
    return [*map(duration, (latency.median, latency.p95, latency.p99)), compact(latency.throughput)]


def plain_table(title: str, *columns: str) -> Table:
    """A table without frames: a column of names, then columns of numbers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(title, no_wrap=True, min_width=NAME_WIDTH)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _add_row(table: Table, made_by: str, *cells: str) -> None:
    add_row(table, made_by, *cells, style="bold" if made_by == OURS else "")


def _verdict_cell(row: Row) -> str:
    """The verdict and, below it, the largest error and its share of the allowed one."""
    verdict = row.verdict
    if verdict is None or verdict.relative is None or not _has_error(row):
        return verdict_word(row)
    share = ""
    if verdict.share is not None and not verdict.wrong:
        share = " (<1%)" if verdict.share < 0.005 else f" ({verdict.share:.0%})"
    return f"{verdict_word(row)}\n{verdict.relative:.1e}{share}"


def _has_error(row: Row) -> bool:
    return not row.failure and row.verdict is not None and bool(row.verdict.relative) and not row.verdict.edge_case


def _speed_cells(row: Row, batch: int, *, is_baseline: bool) -> list[str]:
    latency = row.measured.latencies.get(batch) if row.measured is not None else None
    if latency is None:
        return [EMPTY_CELL] * 5
    ratio = "1" if is_baseline else ratio_with_bounds(row.ratios[batch]) if batch in row.ratios else EMPTY_CELL
    return [*call_cells(latency), ratio]


def _loading_cells(row: Row) -> list[str]:
    m = row.measured
    if m is None or m.failure:
        return [EMPTY_CELL] * 3
    return [duration(m.creation_seconds), decimal(m.resident_bytes), decimal(m.peak_bytes)]
