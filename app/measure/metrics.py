"""What is measured of a model."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RatioInterval:
    """A ratio, and the 95 % confidence interval around it."""

    ratio: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether a difference was measured at all: the interval does not hold 1."""
        return not self.low <= 1.0 <= self.high


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds for one call with `batch` samples, of so many calls; `rounds` has the medians that pair with others.

    `rounds`: one list for each set of processes, with one median a round; it is empty for a set that it was not in.
    `median_low` and `median_high` are the 95 % interval of the median.
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
    """One model under one setting, in fresh processes. `failure` says why there is nothing else, in a line.

    `creation_seconds`: seconds to make the session, the median over the processes. `resident_bytes` and `peak_bytes`:
    bytes of memory of a process that loaded and ran the model with one sample, `baseline_bytes` those of one that has
    only imported onnxruntime. `providers`: how many nodes each execution provider ran in the end. `latencies` by batch
    size. `threads`: how many threads compute an op, as far as the process shows it.
    """

    failure: str = ""
    creation_seconds: float = 0.0
    resident_bytes: int = 0
    peak_bytes: int = 0
    baseline_bytes: int = 0
    providers: dict[str, int] = field(default_factory=dict[str, int])
    latencies: dict[int, Latency] = field(default_factory=dict[int, Latency])
    threads: int = 0
