"""A comparison: what it came to in a sentence, then tables by theme, each narrow enough for any terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.filesize import decimal
from rich.table import Table

from ..measure.metrics import RatioInterval
from ..terminal import Terminal, add_row, plural
from .comparison_report import OURS, ComparisonReport, Row

EMPTY_CELL = "-"
NAME_WIDTH = 13  # characters of what stands first in a row
MAX_SYMBOL_LENGTH = 12  # characters of a dim that a cell may name
LARGE_RATE = 1e6  # samples a second, beyond which digits say nothing
LARGE_MS = 1e5  # milliseconds with which there is no room for a comma


def show_comparison_report(terminal: Terminal, report: ComparisonReport) -> None:
    """All there is to see of it; the rest is in its JSON."""
    terminal.line(report.source, "bold")
    terminal.line(headline(report))
    for table in comparison_tables(report):
        terminal.out.print(table)
    for line in (*legend_lines(report.rows), *failure_lines(report.rows), *condition_lines(report)):
        terminal.line(line)


def headline(report: ComparisonReport) -> str:
    """What this optimizer did for the model, in a sentence."""
    written, online = (report.row_of(OURS, online=o) for o in (False, True))
    original = report.rows[0].stats
    if written is None or online is None or written.stats is None or original is None:
        return f"{OURS} made nothing that can be run"
    said = f"{OURS}: {original.nodes} -> {written.stats.nodes} nodes, {verdict_word(written)}"
    if wrong := report.wrong_under_ort_all(OURS):
        return f"{said}; ORT ALL is wrong about {wrong}, so no time counts"
    ratio = next(iter(online.ratios.values()), None)
    if ratio is None:
        return f"{said}; nothing was measured under ORT ALL"
    if not ratio.is_significant:
        return f"{said}; with ORT ALL no difference in time measured ({_interval_text(ratio)})"
    return f"{said}; with ORT ALL {_share_text(ratio.ratio)} ({_interval_text(ratio)}) of the original's time"


def comparison_tables(report: ComparisonReport) -> Iterator[Table]:
    """The tables, in order, none wider than 80 characters."""
    yield verdict_table(report.rows)
    yield size_table(report.rows)
    for batch in report.batches:
        yield speed_table(report, batch)
    yield loading_table(report.rows)
    if report.online_optimizations:
        yield online_optimization_table(report)


def verdict_table(rows: Sequence[Row]) -> Table:
    """Whether each computes the same, as it is written and then under ORT ALL, and what kind of file it is."""
    table = _table("Right?", "as written", "then ORT ALL", "valid", "portable")
    for written, online in _offline_online_pairs(rows):
        a = written.stats
        kind = [_yes_no(not a.checker_error), _yes_no(a.is_portable)] if a is not None else [EMPTY_CELL, EMPTY_CELL]
        then = _verdict_cell(online) if online is not None else ""
        add_row(table, written.made_by, _verdict_cell(written), then, *kind, style=_style(written.made_by))
    return table


def size_table(rows: Sequence[Row]) -> Table:
    """What each file is made of, and how long making it took."""
    table = _table("Size", "nodes", "op types", "parameters", "bytes", "optimizing")
    for row, _ in _offline_online_pairs(rows):
        a = row.stats
        cells = (
            [str(a.nodes), str(len(a.ops)), f"{a.parameters:,}", decimal(a.bytes)]
            if a is not None
            else [EMPTY_CELL] * 4
        )
        took = "" if row.made_by == rows[0].made_by else EMPTY_CELL if row.seconds is None else f"{_ms(row.seconds)} ms"
        add_row(table, row.made_by, *cells, took, style=_style(row.made_by))
    return table


def speed_table(report: ComparisonReport, batch: int) -> Table:
    """How long a call takes, in milliseconds, and how many samples a second that makes."""
    what = "one sample" if batch == 1 else f"batch of {batch}"
    times = ("median\nms", "95 %\nms", "99 %\nms")
    table = _table(f"Speed,\n{what}", *times, "samples\na second", "time against\noriginal, ORT ALL")
    for online, title in ((False, "as written:"), (True, "then ORT ALL:")):
        add_row(table, title, *[""] * 5, style="dim")
        for i, row in enumerate(report.rows):
            if row.online is online:
                cells = _speed_cells(row, batch, is_baseline=i == report.baseline)
                add_row(table, row.made_by, *cells, style=_style(row.made_by))
        if not online:
            add_row(table, "", *[""] * 5)
    return table


def loading_table(rows: Sequence[Row]) -> Table:
    """What making a session takes, in milliseconds, and what a process holds that has run it."""
    one = ("memory", "peak")
    table = _table("Loading", "ms as\nwritten", *one, "ms then\nORT ALL", *one)
    for written, online in _offline_online_pairs(rows):
        cells = [*_loading_cells(written), *(_loading_cells(online) if online is not None else [""] * 3)]
        add_row(table, written.made_by, *cells, style=_style(written.made_by))
    return table


def online_optimization_table(report: ComparisonReport) -> Table:
    """What onnxruntime's own optimizer still finds to do, what that takes and what it gains."""
    table = _table("Left for ORT", "nodes", "removed", "loading\n+ ms", "time with it\nagainst without")
    for left in report.online_optimizations:
        time = EMPTY_CELL if left.latency_ratio is None else _ratio_text(left.latency_ratio)
        longer = f"{'-' if left.extra_creation_seconds < 0 else ''}{_ms(abs(left.extra_creation_seconds))}"
        removed = str(left.nodes - left.nodes_after)
        add_row(table, left.made_by, str(left.nodes), removed, longer, time, style=_style(left.made_by))
    return table


def legend_lines(rows: Sequence[Row]) -> Iterator[str]:
    """What the cells mean, as far as there are such cells."""
    if any(_has_error(row) for row in rows):
        yield "errors: as a share of the largest magnitude of that output; in brackets, of what is allowed"
    if any(row.ratios for row in rows):
        yield "time against: with its 95 % interval; where that holds 1, no difference was measured"


def failure_lines(rows: Sequence[Row]) -> Iterator[str]:
    """What is wrong with rows, those with the same complaint in one line, and what to do."""
    said: dict[str, list[str]] = {}
    for row in rows:
        if row.is_unusable:
            how = f"fails: {row.failure}" if row.failure or row.verdict is None else f"WRONG: {row.verdict.wrong}"
            said.setdefault(how, []).append(row.label)
        if row.stats is not None and row.stats.checker_error and not row.online:
            said.setdefault(f"not valid: {row.stats.checker_error}", []).append(row.label)
    for how, labels in said.items():
        yield how
        yield f"    {', '.join(labels)}"
    advice = dict.fromkeys(row.advice for row in rows if row.advice)
    yield from (f"what is to blame: {text}" for text in advice)


def condition_lines(report: ComparisonReport) -> Iterator[str]:
    """With what all of it was measured and judged."""
    yield report.verification + (
        f"; verifying {OURS}'s run took {report.seconds['verifying']:.1f} s" if "verifying" in report.seconds else ""
    )
    ran = sorted({p for row in report.rows if row.measured is not None for p in row.measured.providers})
    missing = "" if not ran or report.provider in ran else f", nothing on {report.provider}"
    yield f"ran on {', '.join(ran) or report.provider}{missing}, {plural(report.threads, 'thread')}; {report.machine}"
    yield ", ".join(f"{name} {version}" for name, version in report.versions.items())
    if report.sizes:
        yield f"measured with {', '.join(f'{name}={size}' for name, size in report.sizes.items())}"
    if report.batch_note:
        yield f"note: {report.batch_note}"
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"left out: {name}, {why}" for name, why in report.skipped_tools.items())
    if report.models_folder:
        yield f"files kept in {report.models_folder}"


def _table(title: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(title, no_wrap=True, min_width=NAME_WIDTH)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _offline_online_pairs(rows: Sequence[Row]) -> Iterator[tuple[Row, Row | None]]:
    """Each model as it is written, and under ORT ALL where it was run so."""
    online = {row.made_by: row for row in rows if row.online}
    return ((row, online.get(row.made_by)) for row in rows if not row.online)


def _verdict_cell(row: Row) -> str:
    """The word, the worst error, and that in parts of what is allowed."""
    judged = row.verdict
    if judged is None or judged.relative is None or not _has_error(row):
        return verdict_word(row)
    share = f" ({_percent(judged.share)})" if judged.share is not None and not judged.wrong else ""
    return f"{verdict_word(row)}, {judged.relative:.1e}{share}"


def _has_error(row: Row) -> bool:
    """Whether there is an error to tell of."""
    return not row.failure and row.verdict is not None and bool(row.verdict.relative) and not row.verdict.edge_case


def verdict_word(row: Row) -> str:
    """Whether a row computes what the original does: exact is bit for bit, equal within what is allowed."""
    if row.failure:
        return "fails"
    if row.verdict is None:
        return "not judged"
    if row.verdict.wrong:
        return f"WRONG at {_edge_case_text(row.verdict.edge_case)}" if row.verdict.edge_case else "WRONG"
    return "exact" if row.verdict.is_exact else "equal"


def _edge_case_text(edge_case: str) -> str:
    """A cell has no room for long symbols; a complaint has."""
    return edge_case if len(edge_case) <= MAX_SYMBOL_LENGTH else "a size of 0"


def _style(made_by: str) -> str:
    return "bold" if made_by == OURS else ""


def _speed_cells(row: Row, batch: int, *, is_baseline: bool) -> list[str]:
    latency = row.measured.latencies.get(batch) if row.measured is not None else None
    if latency is None:
        return [EMPTY_CELL] * 5
    times = [_ms(t) for t in (latency.median, latency.p95, latency.p99)]
    ratio = "1" if is_baseline else _ratio_text(row.ratios[batch]) if batch in row.ratios else EMPTY_CELL
    return [*times, _rate_text(latency.throughput), ratio]


def _loading_cells(row: Row) -> list[str]:
    m = row.measured
    if m is None or m.failure:
        return [EMPTY_CELL] * 3
    return [_ms(m.creation_seconds), decimal(m.resident_bytes), decimal(m.peak_bytes)]


def _ms(seconds: float) -> str:
    """Milliseconds, to three digits or more, in six characters at most."""
    ms = seconds * 1e3
    if ms >= LARGE_MS:
        return f"{ms:.0f}"
    return f"{ms:.3f}" if ms < 10 else f"{ms:.1f}" if ms < 1000 else f"{ms:,.0f}"


def _rate_text(throughput: float) -> str:
    """Samples a second, to three digits or more."""
    if throughput >= LARGE_RATE:
        return f"{throughput:.2e}"
    return f"{throughput:,.0f}" if throughput >= 10 else f"{throughput:.3g}"


def _percent(share: float) -> str:
    return "<1%" if share < 0.005 else f"{share:.0%}"


def _ratio_text(ratio: RatioInterval) -> str:
    """A ratio with its interval, or that there is no difference."""
    what = _share_text(ratio.ratio) if ratio.is_significant else "no difference"
    return f"{what} ({_share_text(ratio.low)}-{_share_text(ratio.high)})"


def _interval_text(ratio: RatioInterval) -> str:
    return f"{_share_text(ratio.low)} to {_share_text(ratio.high)}"


def _share_text(number: float) -> str:
    """Five characters at most, as intervals of two sets of processes may be very wide."""
    if not 5e-4 <= number < 999.5:
        return f"{number:.0e}"
    return f"{number:.{3 if number < 0.0995 else 2 if number < 9.995 else 1 if number < 99.95 else 0}f}"


def _yes_no(right: bool) -> str:
    return "yes" if right else "no"
