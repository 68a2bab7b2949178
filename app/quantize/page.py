"""Pages of quantizations: accuracy against latency, trials, errors by op, and ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, log10
from pathlib import PurePath

import numpy as np

from ...core.calibration.statistics import Histogram, ValueStatistics
from ...core.ir.quantization_spec import Range
from ..optimize.page import page
from ..report.charts import Bar, Chart, Curve, Point, accuracy_chart, bar_chart, four_digits, plane_chart
from ..report.tile import Tile, latency_tile, size_tile
from .render import comparison_rows, figure_text, summary_lines, trial_rows, wide_counts
from .report import QuantizationReport, QuantizedOp
from .search import TAKEN, Trial

MAX_BARS = 20  # ops in the chart of errors; the table has all
MAX_HISTOGRAMS = 6
COLUMNS = 96  # of a histogram at most


def quantization_page(
    report: QuantizationReport, statistics: Mapping[str, ValueStatistics], ranges: Mapping[str, Range]
) -> str:
    """The page of `passes quantize`; `statistics` and `ranges` of activations as calibrated, if the result has some."""
    return page(
        "quantize",
        report.source,
        f"compressed for {report.target}, within {report.budget} of the {report.figure}",
        report.versions,
        quantization_tiles(report),
        quantization=report,
        outcome=summary_lines(report),
        trials=[(t.outcome == TAKEN, row) for t, row in zip(report.trials, trial_rows(report), strict=True)],
        compared=list(comparison_rows(report)),
        float_counts=Counter((op.operator, op.reason) for op in report.float_ops).most_common(),
        wide_counts=wide_counts(report),
        quantized=by_error(report.quantized),
        fronts=list(front_charts(report)),
        sensitivity=list(error_charts(report)),
        histograms=list(histogram_charts(report, statistics, ranges)),
    )


def quantization_tiles(report: QuantizationReport) -> Iterator[Tile]:
    """Latency, size and accuracy of the result, and the number of changed ops."""
    before, after = report.original, report.result
    if report.is_original:
        yield Tile("result", "the original", note="nothing within the budget was better")
    else:
        yield from (latency_tile(interval) for interval in list(after.ratios.values())[:1])
        yield size_tile("file", before.bytes, after.bytes)
    was = figure_text(report, before.score)
    yield Tile(
        report.figure, figure_text(report, after.score) or "exact", was, "on samples that the search did not see"
    )
    if not report.is_original:
        yield Tile("ops changed", str(len(report.quantized)), note=f"{len(report.float_ops)} compute in float")


def by_error(ops: Sequence[QuantizedOp]) -> list[QuantizedOp]:
    """The ops with the greatest error of their own first; those without a measured one keep their order, last."""
    return sorted(ops, key=lambda op: (op.own_error is None, -(op.own_error or 0.0)))


def front_charts(report: QuantizationReport) -> Iterator[Chart]:
    """Accuracy against latency of all trials that have both, and of the original if its figure is finite."""
    placed = [(t, _place(t)) for t in report.trials]
    taken = [p for t, p in placed if p is not None and t.outcome == TAKEN]
    others = [p for t, p in placed if p is not None and t.outcome != TAKEN]
    if not taken and not others:
        return
    original = [(1.0, report.reference)] if isfinite(report.reference) else []
    curves = [Curve(others, "plain"), Curve(original, "baseline"), Curve(taken, "ours")]
    yield accuracy_chart(report.figure, "of the search", curves)


def error_charts(report: QuantizationReport) -> Iterator[Chart]:
    """The own error of the most sensitive ops."""
    measured = [(op, op.own_error) for op in by_error(report.quantized) if op.own_error]
    if measured:
        title = "Sensitivity by op"
        bars = [Bar(_label(op), error, f"{error:.1e}", tone="ours") for op, error in measured[:MAX_BARS]]
        note = "power of the noise that an op adds to its value, divided by the power of the signal; less is better"
        yield title, note, bar_chart(title, bars, "{:.1e}".format)


def histogram_charts(
    report: QuantizationReport, statistics: Mapping[str, ValueStatistics], ranges: Mapping[str, Range]
) -> Iterator[Chart]:
    """The histograms of the most sensitive values that have one, and their ranges."""
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
        yield op.value, note, plane_chart(op.value, curves, axes, (four_digits, _count), ticks)


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


def _place(trial: Trial) -> Point | None:
    """The latency and the figure of a trial that has both."""
    if trial.ratio is None or trial.score is None or not isfinite(trial.score.figure):
        return None
    return trial.ratio.ratio, trial.score.figure


def _label(op: QuantizedOp) -> str:
    return f"{op.operator} {PurePath(op.value).name}".strip()


def _count(height: float) -> str:
    return f"{10**height - 1:,.0f}"
