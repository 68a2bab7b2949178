"""`compare --quantized`: a model and the results of quantization tools, measured on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

from msgspec import structs

from ...core.errors import ModelError, format_error
from ...core.io.model_source import model_source
from ...core.io.publishing import publish_report
from ...core.ort import value_files
from ...core.run.phase_timer import MEASURING, PhaseTimer
from ...core.support.confidence_intervals import RatioInterval
from ...core.support.scratch_folder import ScratchFolder
from ..measure.agreement import Score
from ..measure.criterion import Criterion
from ..measure.metrics import ModelMetrics, latency_ratios
from ..measure.model_stats import compute_model_stats
from ..options import with_process_options
from ..quantize.document import kept_reason, scheme_text
from ..quantize.journal import Journal
from ..quantize.quantize import QuantizationContext, checked_paths, prepare, quantize_prepared
from ..quantize.quantize_options import QuantizationOptions
from ..registry.environment import machine_summary, versions
from ..registry.quantizers import QUANTIZERS, Feeds
from ..report.page import page_html
from ..report.progress import phase_callback
from .comparison_report import (
    AS_FAST,
    FAILS,
    FASTER,
    INVALID,
    ORIGINAL,
    OURS,
    OVER_BUDGET,
    SLOWER,
    QuantizedComparison,
    QuantizedRow,
)
from .quantized_document import describe
from .tool_runs import installed_tools, run_in_folder


@with_process_options
def compare_quantized(
    model: str | Path, options: QuantizationOptions, tools: Sequence[str] | None = None
) -> QuantizedComparison:
    """Quantize a model by each recipe of `tools` and by `passes quantize` with `options`, and compare the results.

    `tools` are ort, onnxsim and nncf; None selects those installed. Each recipe runs in a fresh process with a time
    limit, and calibrates with the same samples. A recipe that fails has a row with the reason. Raises the errors of
    `quantize`, and UsageError for a tool that is unknown or not installed.
    """
    timer, source = PhaseTimer(phase_callback(options.progress)), model_source(model, inline=True)
    labels, skipped = selected_quantizers(tools)
    paths = checked_paths(options, source)
    with ScratchFolder() as folder:
        start = perf_counter()
        setup = prepare(model, source, paths, options, timer, folder)
        prepared_in = perf_counter() - start
        samples = written_samples(setup.samples.calibration or setup.samples.drawn, folder / "samples")
        made: list[tuple[QuantizedRow, Path]] = []
        for label in labels:
            with timer.phase(f"quantizing with {label}"):
                made.append(run_quantizer(label, Path(model), samples, folder))
        with timer.phase(f"quantizing with {OURS}"):
            made.append(run_own(setup, options, prepared_in, folder))
        with timer.phase("computing the accuracy"):
            scored = [(with_score(row, file, setup.criteria.reported), file) for row, file in made]
        usable = [(i, file) for i, (row, file) in enumerate(scored) if not row.failure]
        with timer.phase(MEASURING):
            original, *measured = setup.racing.measure([file for _, file in usable])
        rows = [row for row, _ in scored]
        for (i, _), metrics in zip(usable, measured, strict=True):
            rows[i] = with_latency(rows[i], metrics, original, setup.criteria.reported)
    reference = Score(setup.criteria.reported.reference, 0.0)
    first = QuantizedRow(ORIGINAL, "", bytes=source.size, score=reference, measured=original)
    report = QuantizedComparison(
        source.label, str(setup.budget), setup.criteria.reported.name, setup.samples.counts, [first, *rows],
        original.threads, skipped, [*setup.samples.notes, *setup.notes, *filter(None, [setup.racing.feeds.note])],
        timer.seconds, versions(), machine_summary(),
    )  # fmt: skip
    publish_report(paths, report.to_json, lambda: page_html(describe(report)))
    return report


def selected_quantizers(names: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    """The labels of the recipes of tools, as `installed_tools` selects them, and why others were skipped."""
    chosen, skipped = installed_tools(names, list(dict.fromkeys(q.tool for q in QUANTIZERS.values())))
    return [label for label, q in QUANTIZERS.items() if q.tool in chosen], skipped


def written_samples(samples: Sequence[Feeds], folder: Path) -> list[str]:
    """Write samples into a new folder, and return their paths."""
    folder.mkdir()
    for number, sample in enumerate(samples):
        value_files.write_value(dict(sample), folder / str(number))
    return [str(folder / str(number)) for number in range(len(samples))]


def run_quantizer(label: str, model: Path, samples: Sequence[str], folder: Path) -> tuple[QuantizedRow, Path]:
    """The row of a recipe before measurement, and its file."""
    file, reply = run_in_folder(label, model, folder, {"samples": list(samples)})
    failure = reply.get("failure", "").replace(f"{folder}/", "")
    row = QuantizedRow(
        label, QUANTIZERS[label].description, reply.get("seconds"), failure, outcome=FAILS if failure else ""
    )
    return row, file


def run_own(
    setup: QuantizationContext, options: QuantizationOptions, prepared_in: float, folder: Path
) -> tuple[QuantizedRow, Path]:
    """The row of `passes quantize` before measurement, with its preparation time, and its file."""
    file, start = folder / "own.onnx", perf_counter()
    timer = PhaseTimer(phase_callback(options.progress))
    result, _ = quantize_prepared(setup, options, timer, folder, Journal())
    result.save(file)
    seconds = prepared_in + perf_counter() - start
    return QuantizedRow(
        OURS, scheme_text(result.report) or f"the original: {kept_reason(result.report)}", seconds
    ), file


def with_score(row: QuantizedRow, file: Path, criterion: Criterion) -> QuantizedRow:
    """The row with its size and score, or with a failure if the model is not valid or does not run."""
    if row.failure:
        return row
    try:
        stats = compute_model_stats(file)
    except ModelError as e:
        return structs.replace(row, failure=f"its result cannot be read: {format_error(e)}", outcome=INVALID)
    score = criterion.score(file)
    failure = (score.failure or stats.checker_error).replace(f"{file.parent}/", "")
    return structs.replace(row, bytes=stats.bytes, score=None if failure else score, failure=failure, outcome=INVALID)


def with_latency(
    row: QuantizedRow, metrics: ModelMetrics, original: ModelMetrics, criterion: Criterion
) -> QuantizedRow:
    """The row with its times and outcome."""
    ratios: Mapping[int, RatioInterval] = latency_ratios(metrics, original)
    found = structs.replace(row, measured=metrics, failure=metrics.failure, ratios=dict(ratios))
    if metrics.failure or row.score is None:
        return structs.replace(found, outcome=INVALID)
    if not criterion.allows(row.score):
        return structs.replace(found, outcome=OVER_BUDGET)
    if any(r.is_slower for r in ratios.values()):
        return structs.replace(found, outcome=SLOWER)
    return structs.replace(found, outcome=FASTER if any(r.high < 1 for r in ratios.values()) else AS_FAST)
