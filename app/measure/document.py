"""The document of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.filesize import decimal

from ...core.ort.engines import ONNXRUNTIME, SINGLE
from ...core.ort.sessions import short_name
from ..report.document import TERMINAL, Cell, Document, Lines, Table, TableRow, table
from ..report.number_text import compact, duration, duration_range, plural, ratio_with_bounds, with_version
from .metrics import load_note

if TYPE_CHECKING:
    from .bench import BenchReport, ModelBenchmark


def describe(report: BenchReport) -> Document:
    """Describe ratios, tables of sizes and times, and the conditions of the measurement."""
    ratios = [*ratio_lines(report)]
    verdict = ratios[0] if ratios else f"measured: {plural(len(report.models) - len(report.failed), 'model')}"
    remarks = Lines([*ratios[1:], *model_lines(report)])
    return Document(
        "passes bench",
        ", ".join(display_name(m, report) for m in report.models),
        verdict,
        "bad" if report.failed else "",
        errors=[f"{display_name(m, report)}: not measured: {m.measured.failure}" for m in report.failed],
        evidence=[size_table(report), memory_table(report), time_table(report)],
        blocks=[
            remarks,
            Lines([*condition_lines(report)], on=TERMINAL),
            Lines([f"all sessions have these settings: {report.session}"] if report.session else []),
            Lines([note for note in (report.note, load_note(m.measured for m in report.models)) if note], "note"),
        ],
    )


def size_table(report: BenchReport) -> Table:
    """The costs of a model before its first run, and its figures on the labelled set."""
    rows = list[TableRow]()
    for model in report.models:
        m = model.measured
        cells: list[Cell] = [decimal(model.bytes), "-" if m.failure else duration(m.creation_seconds)]
        if report.metric:
            figures = {report.metric: model.accuracy, **model.further_figures}
            names = [report.metric, *report.further_metrics]
            cells += [_figure_cell(figures.get(name), model.intervals.get(name)) for name in names]
        rows.append(TableRow([display_name(model, report), *cells], "wrong" if m.failure else ""))
    metrics = filter(None, [report.metric, *report.further_metrics])
    return table("Sizes", ("model", "on disk", "session created in", *metrics), rows)


def _figure_cell(figure: float | None, interval: tuple[float, float] | None) -> Cell:
    """A figure and, below it, its interval."""
    if figure is None:
        return "-"
    return f"{figure:.4f}" if interval is None else (f"{figure:.4f}", "{:.3f} to {:.3f}".format(*interval))


def memory_table(report: BenchReport) -> Table:
    """The memory of a process that ran one sample."""
    measured = [(display_name(model, report), model.measured) for model in report.models]
    rows = [
        TableRow((name, *(decimal(n) if n else "-" for n in (m.resident_bytes, m.peak_bytes, m.virtual_bytes))))
        for name, m in measured
        if not m.failure
    ]
    return table("Memory", ("model", "memory", "at most", "virtual"), rows)


def time_table(report: BenchReport) -> Table:
    """Latency and throughput, with a row for each model and batch size."""
    rows = list[tuple[str, ...]]()
    for model in report.models:
        for n, (batch, x) in enumerate(model.measured.latencies.items()):
            error = max(x.median_high / x.median, x.median / x.median_low) - 1
            median = f"{duration(x.median)} \N{PLUS-MINUS SIGN}{error:.0%}"
            name = "" if n else display_name(model, report)
            rows.append((name, str(batch), median, duration_range(x.tails), compact(x.throughput)))
    return table("Times", ("model", "batch", "median", "p99", "samples/s"), rows)


def model_lines(report: BenchReport) -> Iterator[str]:
    """Yield notes on models that were measured in another way than the first one."""
    for m in report.models:
        name = display_name(m, report)
        if m.accuracy_failure and not m.measured.failure:
            yield f"{name}: no accuracy: {m.accuracy_failure}"
        if m.own_inputs:
            yield f"{name}: it does not accept the inputs of the first model, and was measured with inputs of its own"


def condition_lines(report: BenchReport) -> Iterator[str]:
    """The conditions of the measurement."""
    if report.metric:
        names = " and ".join([report.metric, *report.further_metrics])
        has_intervals = any(model.intervals for model in report.models)
        yield f"{names} over {plural(report.samples, 'labelled sample')}" + ", with 95 % intervals" * has_intervals
    counts = sorted({m.measured.threads for m in report.models if not m.measured.failure})
    threads = f"{' or '.join(map(str, counts))} thread{'s' * (counts != [1])}" if counts else "no threads"
    engines = [*dict.fromkeys(m.engine for m in report.models)]
    others = [with_version(name, report.versions) for name in engines]
    if ONNXRUNTIME in engines:
        others[engines.index(ONNXRUNTIME)] += f" at level {report.level}"
    yield f"{', '.join(others)}, {threads}"
    for m in report.models:
        if not m.measured.failure and m.measured.precision != (m.engine.partition(":")[2] or SINGLE):
            yield f"{display_name(m, report)}: it computes in {m.measured.precision}"
    yield from provider_lines(report)
    if report.sizes:
        yield f"sizes: {', '.join(f'{name}={size}' for name, size in report.sizes.items())}"
    bases = dict[str, int]()
    for m in report.models:
        bases[m.engine] = max(bases.get(m.engine, 0), m.measured.baseline_bytes)
    words = [decimal(n) + f" in {engine}" * (len(bases) > 1) for engine, n in bases.items() if n]
    without_model = f" (without a model {', '.join(words)})" * bool(words)
    yield f"memory: of a process that ran one sample{without_model}; virtual: its address space"
    if any(m.measured.resident_bytes and not m.measured.virtual_bytes for m in report.models):
        yield "memory of a browser: of all its processes together, which share pages"
    yield "\N{PLUS-MINUS SIGN} and brackets: 95 % confidence; p99: of each set of processes, the lowest and the highest"


def ratio_lines(report: BenchReport) -> Iterator[str]:
    """Yield the latency of each model divided by the latency of the first."""
    first = display_name(report.models[0], report)
    for m in report.models[1:]:
        for batch, x in m.ratios.items():
            with_batch = "a single sample" if batch == 1 else f"a batch of {batch}"
            relation = "times as long as" if x.is_significant else "compared with"
            yield f"{display_name(m, report)} with {with_batch}: {ratio_with_bounds(x)} {relation} {first}"


def provider_lines(report: BenchReport) -> Iterator[str]:
    """Yield the execution providers; one line if all nodes of all models ran on the requested one."""
    requested = short_name(report.provider)
    models = [m for m in report.models if m.engine == ONNXRUNTIME]
    if models and requested and {name for m in models for name in m.measured.providers} <= {report.provider}:
        yield f"all nodes ran on {requested}"
        return
    for m in (m for m in models if not m.measured.failure):
        ran = ", ".join(f"{plural(n, 'node')} on {short_name(name)}" for name, n in m.measured.providers.items())
        missing = "" if report.provider in {"", *m.measured.providers} else f", none on {requested}"
        yield f"{display_name(m, report)}: {ran}{missing}"


def display_name(model: ModelBenchmark, report: BenchReport) -> str:
    """The file name, with folders if two files share it, and with the engine if there are several."""
    path, engines = Path(model.model), {m.engine for m in report.models}
    is_unique = len({m.model for m in report.models if Path(m.model).name == path.name}) == 1
    return (path.name if is_unique else model.model) + f" on {model.engine}" * (engines != {ONNXRUNTIME})
