"""Metrics of a model in onnxruntime, with confidence intervals for machines with other load.

Calls in one process are not independent: noise comes in bursts, and the same model loaded twice differs by some
percent as long as the process lives (placement of its memory, choice of cores). A set of processes therefore counts as
one observation, whatever its number of rounds, and the interval is Student's t over the sets, of logarithms. Within a
set, the times of two models are paired by round, so that common slowdowns cancel, and the median ignores bursts.

Simulations had 2 to 8 sets of 2 to 48 rounds, with noise that was independent, autocorrelated (AR(1), 0.9),
heavy-tailed or in bursts, and with or without differences between processes. Intervals contained the true ratio in 92
to 98 % of the cases, and more often for bursts in sets of few rounds. This does not hold for a single set, whose rounds
have to count as independent: it has no information on differences between processes.

Waits for a core are not noise: a call that is shorter than the time slice of the scheduler does not wait, a longer
one does, so the medians of two models differ by much more than their work. The times of sets with such waits exclude
them (`CallTimes.leave_out_waits`). Calls then begin with caches of other processes, which slows models down by
different shares: the intervals are widened by a tenth of the share of the time spent waiting. A ratio is inconclusive
if the models' waits cannot be separated from their work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, log
from statistics import fmean, median, stdev

from msgspec.structs import replace

from ...core.ort.engines import SINGLE, engine_label
from ...core.ort.sessions import SessionConfig
from ...core.support.confidence_intervals import AS_FAST, RatioInterval, mean_interval, median_interval, student_t
from .benchmark_worker import LoadMetrics

COLD_CACHES = 0.1  # of the share of the time spent waiting; the error of a ratio
NOTED_WAITS = 0.05  # of the time


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds per call with `batch` samples, over `calls` calls, and the `throughput` in samples per second.

    `median_low` and `median_high` are the 95 % interval of the median. `rounds`, which are paired with rounds of other
    models, has a list of medians, one per round, for each set of processes; it is empty for sets without this model.
    `tails` has the 99th percentile of the calls of each set, or 0. `waited` is the average share of the time that
    threads waited for a core; the times include it if `is_disturbed`.
    """

    batch: int
    calls: int
    median: float
    median_low: float
    median_high: float
    p95: float
    p99: float
    rounds: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    tails: tuple[float, ...] = field(default=(), repr=False)
    waited: float = 0.0
    is_disturbed: bool = False
    throughput: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the throughput, a field so that reports include it."""
        object.__setattr__(self, "throughput", self.batch / self.median)


@dataclass(frozen=True, slots=True)
class ModelMetrics:
    """The metrics of a model under one config, measured in fresh processes, or the `failure` as one line.

    Attributes:
        creation_seconds: the time to create a session, the median over the processes, whose `creations` are in order.
        resident_bytes: memory of a process after loading and running the model with one sample.
        peak_bytes: the peak memory of that process; `virtual_bytes` is its address space.
        baseline_bytes: memory of a process that has only loaded the engine.
        providers: the number of nodes by the execution provider of onnxruntime that ran them.
        latencies: by batch size.
        threads: the threads that compute an op, as observed in the process.
        precision: the precision in which the engine computes.
        set_peaks: the peak memory of each further process in bytes; 0 for a set without this model.
    """

    failure: str = ""
    creation_seconds: float = 0.0
    resident_bytes: int = 0
    peak_bytes: int = 0
    baseline_bytes: int = 0
    providers: dict[str, int] = field(default_factory=dict[str, int])
    latencies: dict[int, Latency] = field(default_factory=dict[int, Latency])
    threads: int = 0
    precision: str = SINGLE
    set_peaks: tuple[int, ...] = field(default=(), repr=False)
    virtual_bytes: int = 0
    creations: tuple[float, ...] = field(default=(), repr=False)

    @property
    def loaded(self) -> LoadMetrics:
        """The figures of the model's run alone."""
        memory = (self.resident_bytes, self.peak_bytes)
        conditions = (self.creation_seconds, self.baseline_bytes, self.threads)
        return LoadMetrics(*conditions, *memory, self.precision, self.virtual_bytes)

    def in_precision(self, config: SessionConfig) -> ModelMetrics:
        """The metrics, or a failure if the engine computed in another precision because it lacks kernels."""
        if self.failure or config.precision == self.precision.partition(":")[0]:
            return self
        engine = engine_label(config.engine, SINGLE)
        return ModelMetrics(f"{engine} computes in {self.precision} instead of {config.precision}")


def latency_ratios(a: ModelMetrics | None, b: ModelMetrics | None) -> dict[int, RatioInterval]:
    """The latency of `a` divided by the latency of `b`, by batch size; empty if either was not measured."""
    if a is None or b is None:
        return {}
    batches = sorted(a.latencies.keys() & b.latencies.keys())
    return {batch: latency_ratio(a.latencies[batch], b.latencies[batch]) for batch in batches}


def latency_ratio(a: Latency, b: Latency) -> RatioInterval:
    """The time of `a` divided by the time of `b`, paired over the sets with both models; unpaired if there are none."""
    shared = list(_paired_rounds(a, b).values())
    if len(shared) > 1:
        found = _of_logs(*mean_interval([median(s) for s in shared]))
    elif shared:
        found = _of_logs(median(shared[0]), *median_interval(shared[0]))
    else:
        found = _unpaired_ratio(a, b)
    return _with_waits(found, [a, b])


def _with_waits(found: RatioInterval, latencies: Sequence[Latency]) -> RatioInterval:
    """The interval, longer by what waits for a core did to caches, or inconclusive where the waits are in the times."""
    waited = max(x.waited for x in latencies)
    if any(x.is_disturbed for x in latencies):
        low, high = min(found.low, 1 / AS_FAST), max(found.high, AS_FAST)
        return replace(found, low=low, high=high, inconclusive=_inconclusive_text(waited))
    reach = exp(COLD_CACHES * waited)
    return replace(found, low=found.low / reach, high=found.high * reach)


def busy_text(waited: float) -> str:
    """Describe a machine on which processes waited for a core."""
    return f"the machine is busy: the processes waited {waited:.0%} of the time for a core"


def _inconclusive_text(waited: float) -> str:
    return f"{busy_text(waited)}; measure again on a quiet machine, or with a single thread"


def waited_share(measured: Iterable[ModelMetrics]) -> float:
    """The largest share of the time that the processes of a model waited for a core."""
    return max((latency.waited for m in measured for latency in m.latencies.values()), default=0.0)


def load_note(measured: Iterable[ModelMetrics | None]) -> str:
    """The load of the machine during a measurement, and the remedy, in one line; "" on a quiet machine."""
    metrics = [m for m in measured if m is not None]
    waited = waited_share(metrics)
    if any(x.is_disturbed for m in metrics for x in m.latencies.values()):
        return f"inconclusive: {_inconclusive_text(waited)}"
    return f"{busy_text(waited)}; the times exclude this" if waited > NOTED_WAITS else ""


def _paired_rounds(a: Latency, b: Latency) -> dict[int, list[float]]:
    """The logarithms of the ratios of rounds, by the sets with both models."""
    return {
        number: [log(x / y) for x, y in zip(first, second, strict=False)]
        for number, (first, second) in enumerate(zip(a.rounds, b.rounds, strict=False))
        if first and second
    }


def combined_ratio(a: ModelMetrics, b: ModelMetrics, *, tail: bool = False) -> RatioInterval | None:
    """The geometric mean over batch sizes of the time of `a` divided by the time of `b`; `tail`: of 99th percentiles.

    A set of processes is one observation. None with fewer than two sets with both models.
    """
    by_batch = [
        _paired_tails(a.latencies[batch], b.latencies[batch])
        if tail
        else {n: median(rounds) for n, rounds in _paired_rounds(a.latencies[batch], b.latencies[batch]).items()}
        for batch in a.latencies.keys() & b.latencies.keys()
    ]
    sets = sorted(frozenset[int].intersection(*map(frozenset, by_batch))) if by_batch else []
    found = ratio_of_logs([fmean(batch[n] for batch in by_batch) for n in sets])
    return None if found is None else _with_waits(found, [*a.latencies.values(), *b.latencies.values()])


def _paired_tails(a: Latency, b: Latency) -> dict[int, float]:
    """The logarithms of the ratios of 99th percentiles, by the sets with both models."""
    paired = enumerate(zip(a.tails, b.tails, strict=False))
    return {number: log(x / y) for number, (x, y) in paired if x and y}


def peak_ratio(a: ModelMetrics, b: ModelMetrics) -> RatioInterval | None:
    """The peak memory of `a` divided by the peak memory of `b`; None with fewer than two sets with both models."""
    return ratio_of_logs([log(x / y) for x, y in zip(a.set_peaks, b.set_peaks, strict=False) if x and y])


def _of_logs(middle: float, low: float, high: float) -> RatioInterval:
    return RatioInterval(exp(middle), exp(low), exp(high))


def ratio_of_logs(logs: Sequence[float]) -> RatioInterval | None:
    """The ratio and its interval, from one logarithm for each set of processes; None for fewer than two."""
    return _of_logs(*mean_interval(logs)) if len(logs) > 1 else None


def median_latency_interval(rounds: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The 95 % interval of a median time, in seconds."""
    levels = [median(map(log, r)) for r in rounds if r]
    if len(levels) > 1:
        _, low, high = mean_interval(levels)
    else:
        low, high = median_interval([log(t) for r in rounds for t in r])
    return exp(low), exp(high)


def _unpaired_ratio(a: Latency, b: Latency) -> RatioInterval:
    """The ratio of times without common sets: independent means, with the degrees of freedom of the smaller group."""
    first, second = ([median(map(log, r)) for r in x.rounds if r] for x in (a, b))
    middle = fmean(first) - fmean(second)
    if min(len(first), len(second)) < 2:  # a single set has only the spread of its rounds
        (low, high), (least, most) = median_latency_interval(a.rounds), median_latency_interval(b.rounds)
        return RatioInterval(exp(middle), low / most, high / least)
    reach = student_t(min(len(first), len(second)) - 1) * sum(stdev(x) ** 2 / len(x) for x in (first, second)) ** 0.5
    return _of_logs(middle, middle - reach, middle + reach)
