"""Metrics of a model in onnxruntime, with confidence intervals for machines with other load.

Calls of one process are not independent: noise comes in bursts, and the same model loaded twice differs by some percent
for as long as the process lives (placement of its memory, choice of cores). A set of processes therefore counts as one
observation, however many rounds it ran, and the interval is Student's t over the sets, of logarithms. Within a set,
times of two models are paired by round, so that common slowdowns cancel, and the median ignores bursts.

Simulated with 2 to 8 sets of 2 to 48 rounds, and with noise that is independent, autocorrelated (AR(1), 0.9),
heavy-tailed or in bursts, with or without differences between processes, intervals contained the true ratio in 92 to
98 % of the cases, and in more for bursts in sets of few rounds. This does not hold for a single set, whose rounds have
to count as independent: it has no information on differences between processes.

Waits for a core are no noise: a call that is shorter than the time slice of the scheduler does not wait, a longer one
does, so the median of two models differs by much more than their work. Sets with such waits have times without them
(`CallTimes.leave_out_waits`). Calls then begin with caches of other processes, which slows down models by different
shares: the intervals are longer by a tenth of the share of the time that was waited. A ratio of models whose waits
cannot be told from their work is inconclusive.
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

COLD_CACHES = 0.1  # of the share of the time that was waited, by which a ratio may be off
NOTED_WAITS = 0.05  # of the time


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds for one call with `batch` samples, over so many `calls`, and the `throughput`, in samples per second.

    `median_low` and `median_high` are the 95 % interval of the median. `rounds`, which pair with rounds of other
    models, has a list for each set of processes, with one median a round, empty for a set without this model. `tails`
    has the 99th percentile of the calls of each set, 0 for a set without it. `waited`: the share of the time that the
    threads waited for a core, on average, which is in the times if `is_disturbed`, and else is not.
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
        """Compute the throughput, which reports have, too."""
        object.__setattr__(self, "throughput", self.batch / self.median)


@dataclass(frozen=True, slots=True)
class ModelMetrics:
    """The metrics of a model under one config, in fresh processes, or the `failure` in a line.

    `creation_seconds`: the time to create a session, the median over the processes. `resident_bytes`, `peak_bytes`:
    memory of a process that loaded and ran the model with one sample, `virtual_bytes` its address space,
    `baseline_bytes` the memory of one that has only loaded the engine. `providers`: the number of nodes by
    onnxruntime's execution provider that ran them. `latencies` by batch size. `threads` that compute an op, as observed
    in the process. `precision` is that in which the engine really computes. `set_peaks`: the peak memory of each
    further process in bytes, 0 for a set without this model.
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

    @property
    def loaded(self) -> LoadMetrics:
        """The figures of the run of the model alone."""
        memory = (self.resident_bytes, self.peak_bytes)
        conditions = (self.creation_seconds, self.baseline_bytes, self.threads)
        return LoadMetrics(*conditions, *memory, self.precision, self.virtual_bytes)

    def in_precision(self, config: SessionConfig) -> ModelMetrics:
        """The metrics; a failure if the engine computed in another precision, for want of kernels."""
        if self.failure or config.precision == self.precision.partition(":")[0]:
            return self
        engine = engine_label(config.engine, SINGLE)
        return ModelMetrics(f"{engine} computes it in {self.precision} in place of {config.precision}")


def latency_ratios(a: ModelMetrics | None, b: ModelMetrics | None) -> dict[int, RatioInterval]:
    """The latency of `a` divided by the latency of `b`, by batch size; empty if either was not measured."""
    if a is None or b is None:
        return {}
    batches = sorted(a.latencies.keys() & b.latencies.keys())
    return {batch: latency_ratio(a.latencies[batch], b.latencies[batch]) for batch in batches}


def latency_ratio(a: Latency, b: Latency) -> RatioInterval:
    """The time of `a` divided by the time of `b`, paired by the sets that both were in; without any, unpaired."""
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
    """The state of a machine on which processes waited for a core."""
    return f"the machine is busy: the processes waited {waited:.0%} of the time for a core"


def _inconclusive_text(waited: float) -> str:
    return f"{busy_text(waited)}; measure again on a quiet machine, or with a single thread"


def waited_share(measured: Iterable[ModelMetrics]) -> float:
    """The largest share of the time that the processes of a model waited for a core."""
    return max((latency.waited for m in measured for latency in m.latencies.values()), default=0.0)


def load_note(measured: Iterable[ModelMetrics | None]) -> str:
    """The load of the machine during a measurement, and the remedy, in a line; "" on a quiet one."""
    metrics = [m for m in measured if m is not None]
    waited = waited_share(metrics)
    if any(x.is_disturbed for m in metrics for x in m.latencies.values()):
        return f"inconclusive: {_inconclusive_text(waited)}"
    return f"{busy_text(waited)}; the times exclude this" if waited > NOTED_WAITS else ""


def _paired_rounds(a: Latency, b: Latency) -> dict[int, list[float]]:
    """The logarithms of the ratios of rounds, by the sets that both were in."""
    return {
        number: [log(x / y) for x, y in zip(first, second, strict=False)]
        for number, (first, second) in enumerate(zip(a.rounds, b.rounds, strict=False))
        if first and second
    }


def combined_ratio(a: ModelMetrics, b: ModelMetrics, *, tail: bool = False) -> RatioInterval | None:
    """The mean over all batches of the time of `a` divided by the time of `b`; with `tail`, of 99th percentiles.

    The mean is geometric. A set of processes is one observation; None with fewer than two sets that both were in.
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
    """The logarithms of the ratios of 99th percentiles, by the sets that both were in."""
    paired = enumerate(zip(a.tails, b.tails, strict=False))
    return {number: log(x / y) for number, (x, y) in paired if x and y}


def peak_ratio(a: ModelMetrics, b: ModelMetrics) -> RatioInterval | None:
    """The peak memory of `a` divided by the peak memory of `b`; None with fewer than two sets that both were in."""
    return ratio_of_logs([log(x / y) for x, y in zip(a.set_peaks, b.set_peaks, strict=False) if x and y])


def _of_logs(middle: float, low: float, high: float) -> RatioInterval:
    return RatioInterval(exp(middle), exp(low), exp(high))


def ratio_of_logs(logs: Sequence[float]) -> RatioInterval | None:
    """The ratio of which there is a logarithm for each set of processes; None for fewer than two."""
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
    """The ratio of times without common sets: independent means, with the degrees of freedom of the fewer sets."""
    first, second = ([median(map(log, r)) for r in x.rounds if r] for x in (a, b))
    middle = fmean(first) - fmean(second)
    if min(len(first), len(second)) < 2:  # one set has no spread but its rounds'
        (low, high), (least, most) = median_latency_interval(a.rounds), median_latency_interval(b.rounds)
        return RatioInterval(exp(middle), low / most, high / least)
    reach = student_t(min(len(first), len(second)) - 1) * sum(stdev(x) ** 2 / len(x) for x in (first, second)) ** 0.5
    return _of_logs(middle, middle - reach, middle + reach)
