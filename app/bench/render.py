"""Models side by side, in figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from ..measure.execution_provider import short_name
from ..measure.metrics import Interval, Latency, Measured
from ..terminal import Screen, add_row, plural, table_of
from .bench_report import Benched, BenchedModel


def show_benched(screen: Screen, benched: Benched) -> None:
    """A table of sizes and one of times, then what they were measured with."""
    screen.out.print(size_table(benched))
    if any(m.measured.latencies for m in benched.models):
        screen.out.print(time_table(benched))
    for line in lines(benched):
        screen.line(line)


def size_table(benched: Benched) -> Table:
    """What a model takes before it does anything, and how right it is."""
    right = [benched.metric] if benched.metric else []
    table = table_of("model", "on disk", "session made in", "memory", "at most", *right)
    for m in benched.models:
        told = [amount(m.bytes), *(["-"] * 3 if m.measured.failure else _weights(m.measured))]
        scores = ["-" if m.accuracy is None else f"{m.accuracy:.4f}"] * len(right)
        add_row(table, name_of(m, benched), *told, *scores, style="red" if m.measured.failure else "")
    return table


def time_table(benched: Benched) -> Table:
    """Latencies and throughput, a line for each model and batch size."""
    table = table_of("model", "batch", "median", "p95", "p99", "samples/s")
    for m in benched.models:
        for n, (batch, latency) in enumerate(m.measured.latencies.items()):
            add_row(table, "" if n else name_of(m, benched), str(batch), *_times(latency))
    return table


def lines(benched: Benched) -> Iterator[str]:
    """What went wrong, and what everything was measured with."""
    yield from ratio_lines(benched)
    for m in benched.models:
        if m.measured.failure:
            yield f"{name_of(m, benched)}: not measured: {m.measured.failure}"
        elif m.unscored:
            yield f"{name_of(m, benched)}: no accuracy: {m.unscored}"
        if m.own_inputs:
            yield f"{name_of(m, benched)}: it does not take the inputs of the first, so it got its own"
    if benched.metric:
        yield f"{benched.metric} over {plural(benched.samples, 'labelled sample')}"
    yield f"onnxruntime {benched.versions['onnxruntime']} at level {benched.level}, {threads_told(benched)}"
    yield from provider_lines(benched)
    sizes = ", ".join(f"{name}={size}" for name, size in benched.sizes.items())
    if sizes:
        yield f"sizes: {sizes}"
    if benched.note:
        yield f"note: {benched.note}"
    base = max((m.measured.base for m in benched.models), default=0)
    of_it = f", {amount(base)} of it before there is a model" if base else ""
    yield f"memory: of a process that ran one sample{of_it}; \N{PLUS-MINUS SIGN} and brackets: 95 % confidence"


def ratio_lines(benched: Benched) -> Iterator[str]:
    """How long each model takes, held to the first."""
    first = name_of(benched.models[0], benched)
    for m in benched.models[1:]:
        for batch, interval in m.ratios.items():
            with_batch = "a single sample" if batch == 1 else f"a batch of {batch}"
            yield f"{name_of(m, benched)} with {with_batch}: {ratio_told(interval, first)}"


def provider_lines(benched: Benched) -> Iterator[str]:
    """Who ran the nodes: in a line for all models if that was the same one, which was asked for."""
    ran = {name for m in benched.models for name in m.measured.providers}
    if ran <= {benched.provider}:
        yield f"all nodes ran on {short_name(benched.provider)}"
        return
    for m in benched.models:
        if not m.measured.failure:
            told = ", ".join(f"{plural(n, 'node')} on {short_name(name)}" for name, n in m.measured.providers.items())
            missing = "" if benched.provider in m.measured.providers else f", none on {short_name(benched.provider)}"
            yield f"{name_of(m, benched)}: {told}{missing}"


def threads_told(benched: Benched) -> str:
    """How many threads computed an op, as seen in the processes."""
    seen = sorted({m.measured.threads for m in benched.models if not m.measured.failure})
    return f"{' or '.join(map(str, seen))} thread{'s' * (seen != [1])}" if seen else "no threads"


def ratio_told(interval: Interval, other: str) -> str:
    """A ratio of times with its interval, in words where it says nothing."""
    numbers = f"{interval.ratio:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    if not interval.is_difference:
        return f"no difference measured to {other}, {numbers}"
    return f"{numbers} times as long as {other}"


def name_of(model: BenchedModel, benched: Benched) -> str:
    """The name of a file; with its folders where two files have that name."""
    name = Path(model.model).name
    return name if sum(Path(m.model).name == name for m in benched.models) == 1 else model.model


def amount(count: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def time(seconds: float) -> str:
    """A time with three digits that say something."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    return f"{seconds * 1e6:.3g} \N{MICRO SIGN}s"


def _weights(m: Measured) -> list[str]:
    return [time(m.creation), amount(m.resident), amount(m.peak)]


def _times(latency: Latency) -> list[str]:
    reach = max(latency.median_high / latency.median, latency.median / latency.median_low) - 1
    rate = latency.throughput
    told = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    return [f"{time(latency.median)} \N{PLUS-MINUS SIGN}{reach:.0%}", time(latency.p95), time(latency.p99), told]
