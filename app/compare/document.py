"""The document of a comparison of optimizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.filesize import decimal

from ...core.run.report import Report
from ..measure.metrics import Latency, load_note
from ..optimize.document import run_sections, run_tiles
from ..report.charts import Bar, BarChart, size_text
from ..report.document import (
    LATENCY,
    PAGE,
    TERMINAL,
    Block,
    Cell,
    Charts,
    Document,
    Lines,
    Section,
    Table,
    TableRow,
    Tile,
    latency_tile,
    table,
)
from ..report.number_text import (
    compact,
    duration,
    duration_range,
    plural,
    ratio_with_bounds,
    time_against_original,
    with_version,
)
from ..report.result_row import BIT_IDENTICAL, WITHIN_TOLERANCE, WRONG
from ..report.verdict_text import INVALID
from ..report.visualization import Visualization
from .comparison_report import OURS, ComparisonReport, Row, offline_online_pairs

EMPTY_CELL = "-"
MAX_SYMBOL_LENGTH = 12  # characters of a dim in a cell
LEGEND = {
    "ours": OURS,
    "baseline": "baseline: original + ORT ALL",
    "plain": "others",
    "wrong": "wrong, or does not run",
}


def describe(
    report: ComparisonReport, run: Report | None = None, visualization: Visualization | None = None
) -> Document:
    """Describe all rows in tables, with the conditions; add the page sections of our own `run`."""
    rows = report.rows
    ours = [row for row in rows if row.made_by == OURS]
    tone = "bad" if not ours or any(row.is_unusable for row in ours) else "good" if report.is_verified else "open"
    legends = [
        "errors: relative to the largest magnitude of the output; in brackets, relative to the tolerance",
        "time against: with its 95 % interval; inconclusive means that the interval is wide and contains 1",
        "p99: the lowest and highest of the sets of processes",
    ]
    blocks: list[Block] = [
        Charts([*comparison_charts(report)], LEGEND),
        verdict_table(rows),
        size_table(rows),
        *(speed_table(report, batch) for batch in report.batches),
        *([engine_table(report)] if report.engines else []),
        loading_table(rows),
        online_optimization_table(report),
        Lines(
            [*legends[: any(map(_has_error, rows))], *legends[1:] * any(row.ratios for row in rows)], on=TERMINAL | PAGE
        ),
        Lines([*operator_lines(report)], on=TERMINAL | PAGE),
        Lines([*failure_lines(rows)]),
        Lines([*condition_lines(report)], on=TERMINAL | PAGE),
        Lines(
            [note for note in (report.batch_note, load_note(row.measured for row in rows), *report.notes) if note],
            "note",
        ),
        Lines([f"{name}, {why}" for name, why in report.skipped_tools.items()], "left out"),
        Lines([f"files kept in {report.models_folder}"] * bool(report.models_folder), on=TERMINAL),
    ]
    return Document(
        "passes compare",
        report.source,
        headline(report),
        tone,
        summary=f"{len(rows)} variants, {OURS} with the pipeline {report.pipeline}",
        tiles=[*compare_tiles(report), *(run_tiles(run) if run is not None else ())],
        errors=[report.verification] * (not report.is_verified),
        blocks=[Section("comparison", "Comparison", blocks), *(run_sections(run, visualization) if run else ())],
        footer=[*(f"{name} {version}" for name, version in report.versions.items()), report.machine],
    )


def compare_tiles(report: ComparisonReport) -> Iterator[Tile]:
    """The latency of our result divided by the latency of the original, both under ORT ALL."""
    ours = report.row_of(OURS, online=True)
    interval = ours.ratios.get(report.batches[0]) if ours is not None and report.batches else None
    if wrong := report.wrong_under_ort_all(OURS):
        yield Tile(
            LATENCY, "wrong", note=f"onnxruntime computes {wrong} incorrectly; times are not compared", tone="bad"
        )
    elif interval is not None:
        yield latency_tile(interval)


def comparison_charts(report: ComparisonReport) -> Iterator[BarChart]:
    """Yield the charts that are not empty."""
    tones = [(row, row_tone(row, report)) for row in report.rows]
    for batch in report.batches:
        measured = [(r, tone, r.measured.latencies.get(batch)) for r, tone in tones if r.measured is not None]
        bars = [
            Bar(r.label, x.median, duration(x.median), x.median_low, x.median_high, tone)
            for r, tone, x in measured
            if x is not None
        ]
        if bars:
            note = "median, with its 95 % interval; less is better"
            yield BarChart(f"Latency, {batch_text(batch)}", note, bars, duration)
    written = [(r, tone, r.stats) for r, tone in tones if not r.online]
    sizes = [Bar(r.label, s.bytes, decimal(s.bytes), tone=tone) for r, tone, s in written if s is not None]
    if sizes:
        yield BarChart("Bytes on disk", "weights included", sizes, size_text)
    final = [(r, tone, r.online_stats or r.stats) for r, tone in tones]
    nodes = [Bar(r.label, s.nodes, f"{s.nodes:,}", tone=tone) for r, tone, s in final if s is not None]
    if nodes:
        yield BarChart("Nodes that run", "bodies included, Constant ops not", nodes, "{:,.0f}".format)


def row_tone(row: Row, report: ComparisonReport) -> str:
    """The tone of a row."""
    if row.is_unusable:
        return "wrong"
    if row is report.rows[report.baseline]:
        return "baseline"
    return "ours" if row.made_by == OURS else "plain"


def headline(report: ComparisonReport) -> str:
    """The gain by passwright, in a sentence."""
    written, online = (report.row_of(OURS, online=o) for o in (False, True))
    original = report.rows[0].stats
    if written is None or online is None or written.stats is None or original is None:
        return f"the result of {OURS} cannot be run"
    start = f"{OURS}: {original.nodes} -> {written.stats.nodes} nodes, {verdict_word(written)}"
    if wrong := report.wrong_under_ort_all(OURS):
        return f"{start}; ORT ALL computes {wrong} incorrectly, so times are not compared"
    ratio = next(iter(online.ratios.values()), None)
    if ratio is None:
        return f"{start}; nothing was measured under ORT ALL"
    return f"{start}; {time_against_original(ratio)}"


def verdict_table(rows: Sequence[Row]) -> Table:
    """The verdict on each file as written and under ORT ALL, and the kind of file."""
    cells = list[TableRow]()
    for written, online in offline_online_pairs(rows):
        kind, stats = [EMPTY_CELL, EMPTY_CELL], written.stats
        if stats is not None:
            kind = [INVALID if stats.checker_error else "valid", "yes" if stats.is_portable else "no"]
        then = _verdict_cell(online) if online is not None else ""
        cells.append(_row(written, _verdict_cell(written), then, *kind))
    return table("Right, valid, portable", ("Right?", "as written", "then ORT ALL", "checker", "portable"), cells)


def engine_table(report: ComparisonReport) -> Table:
    """The verdict on each model in other engines, and its time against the original under ORT ALL."""
    cells = list[TableRow]()
    for row in report.engines:
        latencies = row.measured.latencies if row.measured is not None else {}
        times = [
            EMPTY_CELL
            if (x := latencies.get(batch)) is None
            else f"{duration(x.median)}{f', {ratio_with_bounds(r)}' if (r := row.ratios.get(batch)) else ''}"
            for batch in report.batches
        ]
        name = row.engine.partition(":")[0]
        engine = f"{with_version(name, report.versions)} ({row.precision})"
        verdict = row.failure or row.verdict or EMPTY_CELL
        tone = "wrong" if row.failure or row.is_wrong else ""
        cells.append(TableRow((row.made_by, engine, verdict, *times), tone))
    headings = ("In other engines", "engine", "right?", *(f"time, {batch_text(b)}" for b in report.batches))
    return table("In other engines", headings, cells, texts=("engine", "right?"))


def size_table(rows: Sequence[Row]) -> Table:
    """The size of each file, and the time to make it."""
    cells = list[TableRow]()
    for row, _ in offline_online_pairs(rows):
        sizes, stats = [EMPTY_CELL] * 4, row.stats
        if stats is not None:
            sizes = [str(stats.nodes), str(len(stats.ops)), f"{stats.parameters:,}", decimal(stats.bytes)]
        took = EMPTY_CELL if row.seconds is None else duration(row.seconds)
        cells.append(_row(row, *sizes, "" if row.made_by == rows[0].made_by else took))
    return table("Sizes", ("Size", "nodes", "op types", "parameters", "bytes", "optimizing"), cells)


def speed_table(report: ComparisonReport, batch: int) -> Table:
    """The time of a call, and samples per second."""
    cells = list[TableRow]()
    for online, title in ((False, "as written:"), (True, "then ORT ALL:")):
        cells.append(TableRow([title], "muted"))
        cells += [
            _row(row, *_speed_cells(row, batch, is_baseline=i == report.baseline))
            for i, row in enumerate(report.rows)
            if row.online is online
        ]
    headings = ("median", "p99", "samples\na second", "time against\noriginal, ORT ALL")
    return table(f"Speed, {batch_text(batch)}", (f"Speed,\n{batch_text(batch)}", *headings), cells)


def loading_table(rows: Sequence[Row]) -> Table:
    """The time to create a session, and the memory of a process after running it."""
    cells = [
        _row(written, *_loading_cells(written), *(_loading_cells(online) if online is not None else [""] * 3))
        for written, online in offline_online_pairs(rows)
    ]
    headings = ("Loading", "as\nwritten", "memory", "peak", "then\nORT ALL", "memory", "peak")
    return table("Loading", headings, cells)


def online_optimization_table(report: ComparisonReport) -> Table:
    """The nodes that onnxruntime's own optimizer removes, its cost and its gain."""
    cells = list[TableRow]()
    for left in report.online_optimizations:
        time = EMPTY_CELL if left.latency_ratio is None else ratio_with_bounds(left.latency_ratio)
        bounds = left.extra_creation_interval
        extra: Cell = "within noise"
        if bounds is not None and bounds[0] > 0:
            extra = duration(left.extra_creation_seconds), duration_range(bounds)
        tone = "ours" if left.made_by == OURS else ""
        cells.append(TableRow((left.made_by, str(left.nodes), str(left.nodes - left.nodes_after), extra, time), tone))
    headings = ("Left for ORT", "nodes", "removed", "added\nloading", "time with it\nagainst without")
    return table("What is left for onnxruntime", headings, cells)


def operator_lines(report: ComparisonReport) -> Iterator[str]:
    """Yield the numbers of ops that onnxruntime makes in the original and our result, and of others that it runs."""
    counts = report.online_operators
    made = [f"{c.name} {c.made_from_original} -> {c.made_from_result}" for c in counts if c.is_made]
    others = [f"{c.name} {c.original} -> {c.result}" for c in counts if not c.is_made]
    if made:
        yield f"fused or inserted by onnxruntime, original -> {OURS}: {', '.join(made)}"
    if others:
        yield f"other operators that run under ORT ALL, original -> {OURS}: {', '.join(others)}"


def failure_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield each failure once, with the labels of its rows, then advice."""
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
    yield from (f"{', '.join(names)}: {text}" for text, names in labels.items())
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
        yield f"all sessions, also those called ORT ALL, have these settings: {report.session}"
    yield ", ".join(f"{name} {version}" for name, version in report.versions.items())
    if report.sizes:
        yield f"measured with {', '.join(f'{name}={size}' for name, size in report.sizes.items())}"


def verdict_word(row: Row) -> str:
    """The verdict on a row in one or two words."""
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
    """The number of samples in a call."""
    return "one sample" if batch == 1 else f"batch of {batch}"


def call_cells(latency: Latency) -> list[str]:
    """The median time of a call, the range of 99th percentiles of its process sets, and samples per second."""
    return [duration(latency.median), duration_range(latency.tails), compact(latency.throughput)]


def _row(row: Row, *cells: Cell) -> TableRow:
    tone = "wrong" if row.is_unusable else "ours" if row.made_by == OURS else ""
    return TableRow((row.made_by, *cells), tone)


def _verdict_cell(row: Row) -> Cell:
    """The verdict and, below it, the largest error with its share of the tolerance."""
    verdict = row.verdict
    if verdict is None or verdict.relative is None or not _has_error(row):
        return verdict_word(row)
    share = ""
    if verdict.share is not None and not verdict.wrong:
        share = " (<1%)" if verdict.share < 0.005 else f" ({verdict.share:.0%})"
    return verdict_word(row), f"{verdict.relative:.1e}{share}"


def _has_error(row: Row) -> bool:
    return not row.failure and row.verdict is not None and bool(row.verdict.relative) and not row.verdict.edge_case


def _speed_cells(row: Row, batch: int, *, is_baseline: bool) -> list[str]:
    latency = row.measured.latencies.get(batch) if row.measured is not None else None
    if latency is None:
        return [EMPTY_CELL] * 4
    ratio = "1" if is_baseline else ratio_with_bounds(row.ratios[batch]) if batch in row.ratios else EMPTY_CELL
    return [*call_cells(latency), ratio]


def _loading_cells(row: Row) -> list[str]:
    m = row.measured
    if m is None or m.failure:
        return [EMPTY_CELL] * 3
    return [duration(m.creation_seconds), decimal(m.resident_bytes), decimal(m.peak_bytes)]
