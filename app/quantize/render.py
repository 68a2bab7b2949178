"""Tables of a quantization."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.filesize import decimal
from rich.table import Table

from ...core.support.confidence_intervals import RatioInterval
from ..report.card import Card
from ..report.number_text import change, duration, ratio_with_bounds, three_digits
from ..report.terminal import Terminal, add_row, new_table, plural
from .criterion import Score
from .report import QuantizationReport
from .search import Trial

MAX_REASONS = 12


def show_quantization(terminal: Terminal, report: QuantizationReport, *, output: Path | None) -> None:
    """Print the trials, the comparison with the original, and the reasons of ops that stay in float."""
    terminal.line(f"{report.source}, for {report.target}, within {report.budget} of the {report.figure}")
    terminal.lines(f"note: {note}" for note in report.notes)
    terminal.table(trial_table(report))
    terminal.table(comparison_table(report))
    if report.float_ops:
        terminal.table(float_table(report))
    if report.kept_high_precision:
        terminal.table(wide_table(report))
    terminal.lines(summary_lines(report))
    terminal.line(f"written to {output}" if output is not None else "not written: give -o FILE to keep it")


def quantization_card(report: QuantizationReport) -> Card:
    """The card of a quantization."""
    folds = [("Against the original", comparison_table(report)), ("Trials", trial_table(report))]
    folds += [("In float", float_table(report)), ("Wide weights", wide_table(report))]
    verdict, *notes = [*summary_lines(report), *report.notes]
    tone = "open" if report.is_original else "good"
    return Card("passes quantize", report.source, tone, verdict, notes=notes, folds=folds)


def trial_table(report: QuantizationReport) -> Table:
    """All candidates of the search; where it is too wide, an interval is below its ratio."""
    headings = ("scheme", "ops", "bytes", report.figure, "time", "outcome")
    table = new_table(*headings, texts=["outcome"], rows=trial_rows(report))
    table.columns[4].no_wrap = False
    return table


def trial_rows(report: QuantizationReport) -> Iterator[tuple[str, ...]]:
    """The cells of each trial: scheme, ops changed, bytes, figure, time and outcome."""
    for trial in report.trials:
        time = ratio_with_bounds(trial.ratio) if trial.ratio is not None else ""
        ops = f"{trial.changed}/{trial.changed + trial.left}"
        size = decimal(trial.bytes) if trial.bytes else ""
        yield scheme_text(trial), ops, size, figure_text(report, trial.score), time, trial.outcome


def comparison_table(report: QuantizationReport) -> Table:
    """The original and the result: size, memory, accuracy, latency and throughput."""
    return new_table("", "original", "result", "change", rows=comparison_rows(report))


def comparison_rows(report: QuantizationReport) -> Iterator[tuple[str, str, str, str]]:
    """A name, the original, the result, and the change from one to the other."""
    a, b = report.original, report.result
    yield "disk", decimal(a.bytes), decimal(b.bytes), change(a.bytes, b.bytes)
    for label, x, y in (
        ("memory, loaded", a.metrics.resident_bytes, b.metrics.resident_bytes),
        ("memory, peak", a.metrics.peak_bytes, b.metrics.peak_bytes),
    ):
        yield label, decimal(x), decimal(y), change(x, y)
    yield report.figure, figure_text(report, a.score), figure_text(report, b.score), ""
    for batch in sorted(a.metrics.latencies.keys() & b.metrics.latencies.keys()):
        x, y = a.metrics.latencies[batch], b.metrics.latencies[batch]
        suffix = f", batch {batch}" if len(a.metrics.latencies) > 1 else ""
        ratio = b.ratios.get(batch)
        yield f"p50{suffix}", duration(x.median), duration(y.median), ratio_with_bounds(ratio) if ratio else ""
        yield f"p95{suffix}", duration(x.p95), duration(y.p95), ""
        yield f"p99{suffix}", duration(x.p99), duration(y.p99), ""
        yield f"samples/s{suffix}", three_digits(x.throughput), three_digits(y.throughput), ""


def float_table(report: QuantizationReport) -> Table:
    """The ops that stay in float by operator and reason, the most frequent first."""
    table = new_table("stays in float", "ops", "reason", texts=["reason"])
    counts = Counter((op.operator, op.reason) for op in report.float_ops)
    for (operator, reason), n in counts.most_common(MAX_REASONS):
        add_row(table, operator, str(n), reason)
    if len(counts) > MAX_REASONS:
        add_row(table, "...", "", f"{len(counts) - MAX_REASONS} more: --json")
    return table


def wide_table(report: QuantizationReport) -> Table:
    """The weights of more than 8 bits by bits and reason, those with the most bytes first."""
    counts = wide_counts(report)
    rows = ((f"{bits} bits", str(number), decimal(size), reason) for (bits, reason), (number, size) in counts)
    return new_table("weights of", "number", "bytes", "reason", texts=["reason"], rows=rows)


def wide_counts(report: QuantizationReport) -> list[tuple[tuple[int, str], tuple[int, int]]]:
    """The number and the bytes of the weights of more than 8 bits, by bits and reason, the most bytes first."""
    found: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for w in report.kept_high_precision:
        found[w.bits, w.reason].append(w.bytes)
    return sorted(((key, (len(sizes), sum(sizes))) for key, sizes in found.items()), key=lambda item: -item[1][1])


def summary_lines(report: QuantizationReport) -> list[str]:
    """The outcome in words."""
    samples = samples_text(report.samples)
    if report.is_original:
        return [f"the original is kept: no candidate was within the budget and faster or smaller ({samples} samples)"]
    ratio = next(iter(report.result.ratios.values()), None)
    size = f"{decimal(report.result.bytes)} in place of {decimal(report.original.bytes)}"
    figure = f"{report.figure} {figure_text(report, report.result.score)} on inputs that the search did not see"
    changed = f"{scheme_text(report)}: {plural(len(report.quantized), 'op')} changed"
    return [f"{changed}, {size}{time_text(ratio)}; {figure} ({samples} samples)"]


def samples_text(samples: Mapping[str, int]) -> str:
    """The numbers of samples by their use."""
    return ", ".join(f"{n} for {use}" for use, n in samples.items())


def scheme_text(made: QuantizationReport | Trial) -> str:
    """The scheme of a result or a trial, and its variant; "" for the original."""
    return f"{made.scheme} ({made.variant})" if made.variant else made.scheme


def loss_text(report: QuantizationReport) -> str:
    """The scheme of a result, and its figure beside that of the original."""
    before, after = (figure_text(report, m.score) for m in (report.original, report.result))
    against = f", the original's {before}" if before else ""
    return f"{scheme_text(report)}, {report.figure} {after}{against}, on inputs that its search did not see"


def time_text(ratio: RatioInterval | None) -> str:
    """The time against the original's."""
    return "" if ratio is None else f", with ORT ALL {ratio_with_bounds(ratio)} of the original's time"


def figure_text(report: QuantizationReport, score: Score | None) -> str:
    """The figure of a score."""
    return score_text(report.figure, score)


def score_text(figure: str, score: Score | None) -> str:
    """The number of a score with the name `figure`; "" if there is none."""
    if score is None or score.failure or score.figure in {float("inf"), float("-inf")}:
        return ""
    return f"{score.figure:.1f}" if figure.endswith("(dB)") else f"{score.figure:.4g}"
