"""Models side by side, in figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from ..measure.execution_provider import short_name
from ..measure.metrics import Latency, ModelMetrics, RatioInterval
from ..terminal import Terminal, add_row, new_table, plural
from .bench_report import BenchReport, ModelBenchmark


def show_bench_report(terminal: Terminal, report: BenchReport) -> None:
    """A table of sizes and one of times, then what they were measured with."""
    terminal.out.print(size_table(report))
    if any(m.measured.latencies for m in report.models):
        terminal.out.print(time_table(report))
    for line in summary_lines(report):
        terminal.line(line)


def size_table(report: BenchReport) -> Table:
    """Costs of a model before its first run, and its accuracy."""
    right = [report.metric] if report.metric else []
    table = new_table("model", "on disk", "session made in", "memory", "at most", *right)
    for m in report.models:
        told = [bytes_text(m.bytes), *(["-"] * 3 if m.measured.failure else _loading_cells(m.measured))]
        scores = ["-" if m.accuracy is None else f"{m.accuracy:.4f}"] * len(right)
        add_row(table, display_name(m, report), *told, *scores, style="red" if m.measured.failure else "")
    return table


def time_table(report: BenchReport) -> Table:
    """Latencies and throughput, a line for each model and batch size."""
    table = new_table("model", "batch", "median", "p95", "p99", "samples/s")
    for m in report.models:
        for n, (batch, latency) in enumerate(m.measured.latencies.items()):
            add_row(table, "" if n else display_name(m, report), str(batch), *_latency_cells(latency))
    return table


def summary_lines(report: BenchReport) -> Iterator[str]:
    """Failures, and the conditions of the measurement."""
    yield from ratio_lines(report)
    for m in report.models:
        if m.measured.failure:
            yield f"{display_name(m, report)}: not measured: {m.measured.failure}"
        elif m.accuracy_failure:
            yield f"{display_name(m, report)}: no accuracy: {m.accuracy_failure}"
        if m.own_inputs:
            yield f"{display_name(m, report)}: it does not take the inputs of the first, so it got its own"
    if report.metric:
        yield f"{report.metric} over {plural(report.samples, 'labelled sample')}"
    yield f"onnxruntime {report.versions['onnxruntime']} at level {report.level}, {threads_text(report)}"
    yield from provider_lines(report)
    sizes = ", ".join(f"{name}={size}" for name, size in report.sizes.items())
    if sizes:
        yield f"sizes: {sizes}"
    if report.note:
        yield f"note: {report.note}"
    base = max((m.measured.baseline_bytes for m in report.models), default=0)
    of_it = f", {bytes_text(base)} of it before there is a model" if base else ""
    yield f"memory: of a process that ran one sample{of_it}; \N{PLUS-MINUS SIGN} and brackets: 95 % confidence"


def ratio_lines(report: BenchReport) -> Iterator[str]:
    """How long each model takes, held to the first."""
    first = display_name(report.models[0], report)
    for m in report.models[1:]:
        for batch, interval in m.ratios.items():
            with_batch = "a single sample" if batch == 1 else f"a batch of {batch}"
            yield f"{display_name(m, report)} with {with_batch}: {ratio_text(interval, first)}"


def provider_lines(report: BenchReport) -> Iterator[str]:
    """Who ran the nodes: in a line for all models if that was the same one, which was asked for."""
    ran = {name for m in report.models for name in m.measured.providers}
    if ran <= {report.provider}:
        yield f"all nodes ran on {short_name(report.provider)}"
        return
    for m in report.models:
        if not m.measured.failure:
            told = ", ".join(f"{plural(n, 'node')} on {short_name(name)}" for name, n in m.measured.providers.items())
            missing = "" if report.provider in m.measured.providers else f", none on {short_name(report.provider)}"
            yield f"{display_name(m, report)}: {told}{missing}"


def threads_text(report: BenchReport) -> str:
    """How many threads computed an op, as seen in the processes."""
    seen = sorted({m.measured.threads for m in report.models if not m.measured.failure})
    return f"{' or '.join(map(str, seen))} thread{'s' * (seen != [1])}" if seen else "no threads"


def ratio_text(interval: RatioInterval, other: str) -> str:
    """A ratio of times with its interval, in words where it says nothing."""
    numbers = f"{interval.ratio:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    if not interval.is_significant:
        return f"no difference measured to {other}, {numbers}"
    return f"{numbers} times as long as {other}"


def display_name(model: ModelBenchmark, report: BenchReport) -> str:
    """The name of a file; with its folders where two files have that name."""
    name = Path(model.model).name
    return name if sum(Path(m.model).name == name for m in report.models) == 1 else model.model


def bytes_text(count: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def seconds_text(seconds: float) -> str:
    """A time with three digits that say something."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    return f"{seconds * 1e6:.3g} \N{MICRO SIGN}s"


def _loading_cells(m: ModelMetrics) -> list[str]:
    return [seconds_text(m.creation_seconds), bytes_text(m.resident_bytes), bytes_text(m.peak_bytes)]


def _latency_cells(latency: Latency) -> list[str]:
    reach = max(latency.median_high / latency.median, latency.median / latency.median_low) - 1
    rate = latency.throughput
    told = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    return [
        f"{seconds_text(latency.median)} \N{PLUS-MINUS SIGN}{reach:.0%}",
        seconds_text(latency.p95),
        seconds_text(latency.p99),
        told,
    ]
