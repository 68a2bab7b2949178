"""The document of a quantization: result, trials, errors by op, ranges, and ops in float."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite, log10
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from rich.filesize import decimal

from ...core.calibration.statistics import Histogram, ValueStatistics
from ...core.ir.quantization_spec import Range
from ...core.ort.engines import ONNXRUNTIME, SINGLE, engine_label
from ...core.support.confidence_intervals import RatioInterval
from ..measure.agreement import INTERVAL, Score, score_text
from ..measure.criterion import Budget
from ..measure.metrics import load_note
from ..report.charts import Bar, BarChart, Chart, Curve, PlaneChart, Point, accuracy_chart, four_digits
from ..report.document import (
    LATENCY,
    PAGE,
    TERMINAL,
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
from ..report.number_text import (
    change,
    duration,
    duration_range,
    plural,
    ratio_with_bounds,
    three_digits,
    time_against_original,
)
from .report import QuantizationReport, QuantizedOp
from .search import LIMITS, TAKEN, Goal, Trial

MAX_OPEN_ROWS = 40  # in a table on a page
MAX_BARS = 20  # ops in the chart of errors; the table has all
MAX_HISTOGRAMS = 6
COLUMNS = 96  # maximum in a histogram
NAME = re.compile(r"[A-Za-z].*[0-9_./]\w|[0-9_./].*[A-Za-z]|[A-Za-z].*[0-9]")  # a word that may be one of the model
GAINS: Mapping[Goal, str] = {"latency": "faster or smaller", "size": "smaller", "memory": "smaller in memory"}


def describe(
    report: QuantizationReport,
    output: Path | None = None,
    statistics: Mapping[str, ValueStatistics] | None = None,
    ranges: Mapping[str, Range] | None = None,
) -> Document:
    """Describe the trials, the comparison with the original, and why ops stay in float.

    A page has the `statistics` and calibrated `ranges` of activations, if there are any.
    """
    threads = plural(report.threads, "thread") if report.threads else "a thread for each core"
    conditions = [
        f"Both ran side by side in {engines_text(report)}, and {threads}.",
        "The budget was met on the report samples; this is no guarantee for other data.",
    ]
    front = Charts([*front_charts(report)], {"ours": "taken", "baseline": "original", "plain": "other trials"})
    errors = Charts([*error_charts(report), *histogram_charts(report, statistics or {}, ranges or {})])
    undecided = (f"inconclusive: {t.ratio.inconclusive}" for t in report.trials if t.ratio and t.ratio.inconclusive)
    load = next(undecided, load_note([report.original.metrics, report.result.metrics]))
    end = f"written to {output}" if output is not None else "not written: give -o FILE to keep it"
    return Document(
        "passes quantize",
        report.source,
        summary_line(report),
        "open" if report.is_original else "good",
        summary=f"for {report.goal} on {report.target}, within {report.budget} of the {report.figure}",
        tiles=[*quantization_tiles(report)],
        evidence=[
            Section("trials", "Trials", [front, trial_table(report)]),
            Section(
                "quantization", "Original and result", [comparison_table(report), Lines(conditions, on=PAGE)], "Result"
            ),
            Section("quantized", "Quantized ops", [errors, quantized_table(report)], "Quantized"),
            Section("removed", "Channels that were removed", [removed_table(report)], "Removed"),
            Section("ranks", "Layers of low rank", [rank_table(report)], "Low rank"),
            Section("in-float", "Ops that compute in float", [float_table(report)], "In float"),
            Section("kept-high-precision", "Weights of more than 8 bits", [wide_table(report)], "Wide weights"),
        ],
        blocks=[
            Lines([*filter(None, [load, limit_text(report), uncertainty_text(report)]), *report.notes], "note"),
            Lines([end], on=TERMINAL),
        ],
        footer=[f"{name} {version}" for name, version in report.versions.items()],
    )


def quantization_tiles(report: QuantizationReport) -> Iterator[Tile]:
    """Latency, size and accuracy of the result, and the number of changed ops."""
    before, after = report.original, report.result
    if report.is_original:
        yield Tile("result", "the original", note=kept_reason(report))
    else:
        label = LATENCY if report.engine == ONNXRUNTIME else f"latency in {_result_engine(report)}"
        yield from (latency_tile(interval, label) for interval in list(after.ratios.values())[:1])
        yield size_tile("file", before.bytes, after.bytes)
    was = figure_text(report, before.score)
    yield Tile(
        report.figure, figure_text(report, after.score) or "exact", was, "on samples that the search did not see"
    )
    if reduced := reduction_text(report):
        yield Tile("multiplications left", f"{report.multiplications:.2f}", note=reduced)
    if report.quantized:
        yield Tile("ops changed", str(len(report.quantized)), note=f"{len(report.float_ops)} compute in float")


def by_error(ops: Sequence[QuantizedOp]) -> list[QuantizedOp]:
    """Order ops by their own error, largest first, followed by those without a measurement."""
    return sorted(ops, key=lambda op: (op.own_error is None, -(op.own_error or 0.0)))


def front_charts(report: QuantizationReport) -> Iterator[Chart]:
    """Yield accuracy against latency of all trials that have both, and of the original if its figure is finite."""
    placed = [(t, _place(t)) for t in report.trials]
    taken = [p for t, p in placed if p is not None and t.outcome == TAKEN]
    others = [p for t, p in placed if p is not None and t.outcome != TAKEN]
    if not taken and not others:
        return
    original = [(1.0, report.reference)] if isfinite(report.reference) else []
    curves = [Curve(others, "plain"), Curve(original, "baseline"), Curve(taken, "ours")]
    yield accuracy_chart(report.figure, "of the search", curves)


def error_charts(report: QuantizationReport) -> Iterator[Chart]:
    """Yield the own error of the most sensitive ops."""
    measured = [(op, op.own_error) for op in by_error(report.quantized) if op.own_error]
    if measured:
        title = "Sensitivity by op"
        short = Counter(PurePath(op.value).name for op, _ in measured)
        names = (n if short[n := PurePath(op.value).name] == 1 else op.value for op, _ in measured)
        bars = [
            Bar(f"{op.operator} {name}".strip(), error, f"{error:.1e}", tone="ours")
            for (op, error), name in zip(measured[:MAX_BARS], names, strict=False)
        ]
        note = "power of the noise that an op adds to its value, divided by the power of the signal; less is better"
        yield BarChart(title, note, bars, "{:.1e}".format)


def histogram_charts(
    report: QuantizationReport, statistics: Mapping[str, ValueStatistics], ranges: Mapping[str, Range]
) -> Iterator[Chart]:
    """Yield histograms of the most sensitive values, with their ranges."""
    shown = 0
    for op in by_error(report.quantized):
        found = statistics[op.value] if op.value in statistics and op.value in ranges else None
        if found is None or found.histogram is None or not found.histogram.counts.any() or shown == MAX_HISTOGRAMS:
            continue
        shown += 1
        low, high = ranges[op.value]
        steps = histogram_steps(found.histogram)
        top = max(y for _, y in steps)
        ends = [Curve([(x, 0.0), (x, top)], "limit", joined=True) for x in (low, high)]
        axes, ticks = ("value", "count"), [0.0, *(log10(1 + 10**k) for k in range(1, int(top) + 1))]
        note = f"calibrated range {low:.4g} to {high:.4g}, of {found.low:.4g} to {found.high:.4g}; without zeros"
        curves = [Curve(steps, "plain", joined=True, filled=True), *ends]
        yield PlaneChart(op.value, note, curves, axes, (four_digits, _count), ticks)


def histogram_steps(histogram: Histogram) -> list[tuple[float, float]]:
    """The outline of a histogram: edges, and the logarithm of 1 + the count between them."""
    used = np.flatnonzero(histogram.counts)
    first, end = int(used[0]), int(used[-1]) + 1
    merged = -(-(end - first) // COLUMNS)
    edges = range(first, end, merged)
    counts = np.add.reduceat(histogram.counts[first:end], np.arange(0, end - first, merged))
    steps = [(histogram.edges[first], 0.0)]
    for edge, count in zip(edges, counts.tolist(), strict=True):
        height = log10(1 + count)
        steps += [(histogram.edges[edge], height), (histogram.edges[min(edge + merged, end)], height)]
    return [(float(x), y) for x, y in (*steps, (histogram.edges[end], 0.0))]


def trial_table(report: QuantizationReport) -> Table:
    """All candidates of the search; an interval that is too wide is written below its ratio."""
    rows = [
        TableRow(
            (
                scheme_text(trial),
                f"{trial.changed}/{trial.changed + trial.left}",
                decimal(trial.bytes) if trial.bytes else "",
                figure_text(report, trial.score),
                ratio_with_bounds(trial.ratio) if trial.ratio is not None else "",
                trial.outcome,
            ),
            "ours" if trial.outcome == TAKEN else "",
        )
        for trial in report.trials
    ]
    return table(
        "Trials", ("scheme", "changes", "bytes", report.figure, "time", "outcome"), rows, texts=["time", "outcome"]
    )


def comparison_table(report: QuantizationReport) -> Table:
    """The original and the result: size, memory, accuracy, latency and throughput."""
    return table("Against the original", ("", *engine_headings(report), "change"), comparison_rows(report))


def comparison_rows(report: QuantizationReport) -> Iterator[tuple[str, str, str, str]]:
    """Yield a name, the original, the result, and the change between them."""
    a, b = report.original, report.result
    yield "disk", decimal(a.bytes), decimal(b.bytes), change(a.bytes, b.bytes)
    for label, x, y in (
        ("memory, loaded", a.metrics.resident_bytes, b.metrics.resident_bytes),
        ("memory, peak", a.metrics.peak_bytes, b.metrics.peak_bytes),
    ):
        yield label, decimal(x), decimal(y), change(x, y)
    if reduction_text(report):
        yield "multiplications", "1.00", f"{report.multiplications:.2f}", change(1.0, report.multiplications)
    lost = b.score.loss_text(report.budget) if b.score is not None and not report.is_original else ""
    yield report.figure, figure_text(report, a.score), figure_text(report, b.score), f"loss {lost}" if lost else ""
    for batch in sorted(a.metrics.latencies.keys() & b.metrics.latencies.keys()):
        x, y = a.metrics.latencies[batch], b.metrics.latencies[batch]
        suffix = f", batch {batch}" if len(a.metrics.latencies) > 1 else ""
        ratio = b.ratios.get(batch)
        yield f"p50{suffix}", duration(x.median), duration(y.median), ratio_with_bounds(ratio) if ratio else ""
        yield f"p99{suffix}, by set", duration_range(x.tails), duration_range(y.tails), ""
        yield f"samples/s{suffix}", three_digits(x.throughput), three_digits(y.throughput), ""


def quantized_table(report: QuantizationReport) -> Table:
    """The quantized ops, the most sensitive first."""
    headings = ("value", "op", "rule", "bits", "scale", "bits of weights", "their largest scale", "error", "own error")
    rows = [
        (
            op.value,
            op.operator,
            op.rule,
            *(_text(op.bits, str), _text(op.scale), _text(op.weight_bits, str), _text(op.weight_scale)),
            *(_text(op.error), _text(op.own_error)),
        )
        for op in by_error(report.quantized)
    ]
    folded = len(rows) > MAX_OPEN_ROWS
    return table("All, the most sensitive first", headings, rows, texts=["op", "rule"], folded=folded, on=PAGE)


def _text(number: float | None, shown: Callable[[float], str] = lambda n: f"{n:.1e}" if n else "0") -> str:
    return "" if number is None else shown(number)


def removed_table(report: QuantizationReport) -> Table:
    """The groups of channels that were pruned, in model order."""
    rows = [(r.value, f"{r.removed:,}", f"{r.channels:,}") for r in report.removed]
    folded = len(rows) > MAX_OPEN_ROWS
    return table("Removed", ("channels that begin at", "removed", "of"), rows, folded=folded, on=PAGE)


def rank_table(report: QuantizationReport) -> Table:
    """The layers whose weights have a low rank, in model order."""
    rows = [(r.value, f"{r.rank:,}", f"{r.full:,}") for r in report.ranks]
    return table("Low rank", ("result of the layer", "rank", "of"), rows, folded=len(rows) > MAX_OPEN_ROWS, on=PAGE)


def reduction_text(report: QuantizationReport) -> str:
    """The number of removed channels, or of layers of low rank, in words; "" if there are none."""
    if report.ranks:
        return f"{plural(len(report.ranks), 'layer')} of low rank"
    return f"{plural(sum(r.removed for r in report.removed), 'channel')} removed" if report.removed else ""


def float_table(report: QuantizationReport) -> Table:
    """The ops that stay in float, by operator and reason, most frequent first."""
    found = by_reason((op.operator, op.reason, 1) for op in report.float_ops)
    rows = ((operator, f"{len(ops):,}", why) for operator, why, ops in found)
    return table("In float", ("stays in float", "ops", "reason"), rows, texts=["reason"])


def wide_table(report: QuantizationReport) -> Table:
    """The weights of more than 8 bits, by width and reason, largest first."""
    found = by_reason((f"{w.bits} bits", w.reason, w.bytes) for w in report.kept_high_precision)
    rows = ((bits, str(len(sizes)), decimal(sum(sizes)), why) for bits, why, sizes in found)
    return table("Wide weights", ("weights of", "number", "bytes", "reason"), rows, texts=["reason"])


def by_reason(items: Iterable[tuple[str, str, int]]) -> list[tuple[str, str, list[int]]]:
    """The numbers of items (kind, reason, number) with one kind and reason, by their sum, largest first.

    Names that differ in otherwise equal reasons are "...".
    """
    groups = defaultdict[Any, list[tuple[Sequence[str], int]]](list)
    for kind, reason, number in items:
        words = reason.split(" ")
        groups[kind, *("" if NAME.search(word) else word for word in words)].append((words, number))
    found: list[tuple[str, str, list[int]]] = []
    for (kind, *_), group in groups.items():
        columns = zip(*(words for words, _ in group), strict=True)
        reason = " ".join(words[0] if len({*words}) == 1 else "..." for words in columns)
        found.append((kind, reason, [n for _, n in group]))
    return sorted(found, key=lambda row: -sum(row[2]))


def summary_line(report: QuantizationReport) -> str:
    """The outcome in one line."""
    samples = samples_text(report.samples)
    if report.is_original:
        return f"the original is kept: {kept_reason(report)} (samples: {samples})"
    ratio = next(iter(report.result.ratios.values()), None)
    size = f"{decimal(report.result.bytes)} instead of {decimal(report.original.bytes)}"
    found = figure_text(report, report.result.score) or "exact"
    figure = f"{report.figure} {found} on inputs that the search did not see"
    reduced = reduction_text(report)
    changes = [f"{plural(len(report.quantized), 'op')} changed"] if report.quantized or not reduced else []
    if reduced:
        changes.append(f"{reduced}, {report.multiplications:.2f} of the multiplications left")
    changed = f"{scheme_text(report)}: {', '.join(changes)}"
    return f"{changed}, {size}{time_text(ratio, report)}; {figure} (samples: {samples})"


def kept_reason(report: QuantizationReport) -> str:
    """Why the original is the result."""
    gain = GAINS[report.goal]
    if not report.ended_by:
        return f"no candidate was within the budget and {gain}"
    if report.is_undecided:
        return f"the search {LIMITS[report.ended_by]} before a candidate that may be {gain} was scored"
    scored = sum(t.score is not None for t in report.trials)
    found = f"and none of the {scored} scored candidates was" if scored > 1 else "and the only scored candidate was not"
    return f"the search {LIMITS[report.ended_by]}, {found} within the budget and {gain}"


def limit_text(report: QuantizationReport) -> str:
    """The limit that ended the search, and how to continue; "" for a complete search."""
    if not report.ended_by:
        return ""
    how = f"raise --{report.ended_by}, or use --journal to resume it"
    return f"the search {LIMITS[report.ended_by]} before all candidates were tried: {how}"


def uncertainty_text(report: QuantizationReport) -> str:
    """That other samples may have a loss over the budget; "" if its interval is within it, or not known."""
    score = report.result.score
    if report.is_original or score is None or score.interval is None:
        return ""
    if Budget.parse(report.budget).allows(score.interval[1]):
        return ""
    lost = score.loss_text(report.budget, INTERVAL)
    return f"{report.figure}: a loss of {lost}, so it may be over the budget on other samples: more samples narrow it"


def samples_text(samples: Mapping[str, int]) -> str:
    """The numbers of samples by their use."""
    return ", ".join(f"{n} for {use}" for use, n in samples.items())


def scheme_text(made: QuantizationReport | Trial) -> str:
    """The scheme of a result or trial, with its variant; "" for the original."""
    return f"{made.scheme} ({made.variant})" if made.variant else made.scheme


def loss_text(figure: str, budget: str, original: Score | None, result: Score | None) -> str:
    """The figure of a result compared with the original's, and the loss with its interval."""
    before, after = score_text(figure, original), score_text(figure, result)
    against = f", the original's {before}" if before else ""
    lost = result.loss_text(budget, INTERVAL) if result is not None else ""
    return f"{figure} {after}{against}{f', a loss of {lost}' if lost else ''}, on inputs that the search did not see"


def time_text(ratio: RatioInterval | None, report: QuantizationReport) -> str:
    """The time relative to the original's."""
    if ratio is None:
        return ""
    where = "with ORT ALL" if report.engine == ONNXRUNTIME else f"in {_result_engine(report)}"
    return f", {time_against_original(ratio, where)}"


def engines_text(report: QuantizationReport) -> str:
    """The engines of the original and the result."""
    if report.engine == ONNXRUNTIME:
        return "onnxruntime with all its optimizations"
    other = "" if report.precision == SINGLE else f", the result in {report.precision}"
    return f"{engine_label(report.engine, SINGLE)} in {SINGLE}{other}"


def engine_headings(report: QuantizationReport) -> tuple[str, str]:
    """The headings of the original and the result, with the engine unless it is onnxruntime."""
    if report.engine == ONNXRUNTIME:
        return "original", "result"
    return f"original, {engine_label(report.engine, SINGLE)}", f"result, {_result_engine(report)}"


def _result_engine(report: QuantizationReport) -> str:
    return engine_label(report.engine, report.precision)


def figure_text(report: QuantizationReport, score: Score | None) -> str:
    """The figure of a score."""
    return score_text(report.figure, score)


def _place(trial: Trial) -> Point | None:
    """The latency and the figure of a trial, if it has both."""
    if trial.ratio is None or trial.score is None or not isfinite(trial.score.figure):
        return None
    return trial.ratio.ratio, trial.score.figure


def _count(height: float) -> str:
    return f"{10**height - 1:,.0f}"
