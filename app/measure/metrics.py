"""Metrics of a model in onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RatioInterval:
    """A ratio and its 95 % confidence interval."""

    ratio: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether a difference was measured: the interval does not contain 1."""
        return not self.low <= 1.0 <= self.high


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds for one call with `batch` samples, over so many `calls`.

    `median_low` and `median_high` are the 95 % interval of the median. `rounds`, which pair with those of other models,
    has a list for each set of processes, with one median a round, empty for a set without this model.
    """

    batch: int
    calls: int
    median: float
    median_low: float
    median_high: float
    p95: float
    p99: float
    rounds: tuple[tuple[float, ...], ...] = field(default=(), repr=False)

    @property
    def throughput(self) -> float:
        """Samples per second."""
        return self.batch / self.median


@dataclass(frozen=True, slots=True)
class ModelMetrics:
    """The metrics of a model under one config, in fresh processes, or the `failure` in a line.

    `creation_seconds`: the time to create a session, the median over the processes. `resident_bytes`, `peak_bytes`:
    memory of a process that loaded and ran the model with one sample, `baseline_bytes` that of one that has only
    imported onnxruntime. `providers`: the number of nodes by execution provider that ran them. `latencies` by batch
    size. `threads` that compute an op, as observed in the process.
    """

    failure: str = ""
    creation_seconds: float = 0.0
    resident_bytes: int = 0
    peak_bytes: int = 0
    baseline_bytes: int = 0
    providers: dict[str, int] = field(default_factory=dict[str, int])
    latencies: dict[int, Latency] = field(default_factory=dict[int, Latency])
    threads: int = 0
