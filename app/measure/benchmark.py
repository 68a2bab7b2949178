"""How many models may be in memory at once.

Entrants taking turns: in each round each runs a block of calls, in an order that chance decides.

Several models measured side by side: each in a process of its own, taking turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import psutil

from ...core.ort.sessions import SessionConfig
from .confidence_intervals import latency_ratio, median_latency_interval
from .metrics import Latency, ModelMetrics, RatioInterval
from .worker_proxy import REPLY_TIMEOUT, MeasurementFailed, WorkerProxy, write_feeds

AVAILABLE_SHARE = 0.5  # of the memory that is available: what larger batches take is not known before they run


def memory_groups(needs: Sequence[int], budget: int, baseline: int) -> Iterator[list[int]]:
    """Places of models in groups whose needs have room together, each with that of the `baseline`."""
    group, taken = [baseline], needs[baseline]
    for place, need in enumerate(needs):
        if place == baseline:
            continue
        if len(group) > 1 and taken + need > budget:
            yield sorted(group)
            group, taken = [baseline], needs[baseline]
        group.append(place)
        taken += need
    yield sorted(group)


def memory_budget() -> int:
    """Bytes that models may take together."""
    return int(psutil.virtual_memory().available * AVAILABLE_SHARE)


BLOCK_SECONDS = (
    0.025  # seconds of the calls in a block: many rounds, and switching from process to process does not weigh
)
MAX_BLOCK_CALLS = 1000  # in a block
MIN_ROUNDS = 5  # of a set, for calls that do not take long
MIN_SLOW_ROUNDS = 2  # of a set, however long they take
OVERTIME_FACTOR = 4.0  # times the seconds asked for, after which the fewest rounds are enough


class Runner(Protocol):
    """What turns are given to."""

    def warm_up(self, batch: int) -> float:
        """The seconds of a call, warm."""
        ...

    def time_calls(self, batch: int, calls: int, seconds: float) -> list[float]:
        """The seconds of each of so many calls, of about `seconds`."""
        ...


@dataclass(slots=True)
class CallTimes:
    """Seconds of all calls of one entrant, and the median of each round."""

    calls: list[float] = field(default_factory=list[float])
    rounds: list[float] = field(default_factory=list[float])

    def add(self, block: list[float]) -> None:
        """Note a round."""
        self.calls += block
        self.rounds.append(median(block))


def interleave_calls(
    runners: Mapping[int, Runner],
    batch: int,
    seconds: float,
    random: Random,
    try_call: Callable[[int, Callable[[], object]], bool],
) -> dict[int, CallTimes]:
    """Times by place of a runner, until each has run for `seconds`, in two rounds or more.

    `try_call` makes a call for a place, and says whether that one is still in the race.
    """
    pace: dict[int, float] = {}
    times = {place: CallTimes() for place in runners}

    def warm(place: int) -> None:
        pace[place] = max(runners[place].warm_up(batch), 1e-7)

    left = [place for place in runners if try_call(place, lambda place=place: warm(place))]
    block = min(BLOCK_SECONDS, seconds / MIN_ROUNDS)

    def turn(place: int) -> None:
        calls = max(1, min(MAX_BLOCK_CALLS, round(block / pace[place])))
        times[place].add(runners[place].time_calls(batch, calls, pace[place]))

    rounds = 0
    while left and not _is_enough([sum(times[p].calls) for p in left], rounds, seconds):
        random.shuffle(left)
        left = [place for place in left if try_call(place, lambda place=place: turn(place))]
        rounds += 1
    return {place: times[place] for place in left}


def _is_enough(spent: list[float], rounds: int, seconds: float) -> bool:
    if rounds >= MIN_ROUNDS and min(spent) >= seconds:
        return True
    return rounds >= MIN_SLOW_ROUNDS and max(spent) >= OVERTIME_FACTOR * seconds and min(spent) >= seconds


@dataclass(frozen=True, slots=True)
class BenchmarkTarget:
    """A model's file, how onnxruntime is to treat it, and `feeds` of its own, by batch size, instead of everybody's."""

    model: Path
    config: SessionConfig
    feeds: Mapping[int, Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkConfig:
    """How long to measure: `min_time` seconds of calls for each target, in `process_sets` sets of fresh processes.

    No answer of a process is waited for longer than `timeout` seconds.
    """

    min_time: float = 2.0
    process_sets: int = 5
    seed: int = 0
    timeout: float = REPLY_TIMEOUT


def run_benchmark(
    targets: Sequence[BenchmarkTarget],
    feeds: Mapping[int, Mapping[str, Any]],
    config: BenchmarkConfig,
    progress: Callable[[str], None] = lambda _: None,
    baseline: int = 0,
) -> list[ModelMetrics]:
    """Measure all entries with the same `feeds` (arrays by name, by batch size), in turns; a figure for each entry.

    A process for each entry alone comes first: it tells of memory and of providers, and whether there is anything to
    measure. Where all do not fit into memory together, they run in groups, each with the `baseline`. Raises
    UnverifiableError for feeds that cannot be handed to a process.
    """
    with TemporaryDirectory() as folder:
        shared = _write_batches(feeds, Path(folder) / "feeds")
        places = [
            shared if entry.feeds is None else _write_batches(entry.feeds, Path(folder) / f"feeds-{i}")
            for i, entry in enumerate(targets)
        ]
        course = _BenchmarkRun(list(targets), places, config, Path(folder), progress)
        for place in range(len(targets)):
            course.load_once(place)
        fit = [place for place in range(len(targets)) if not course.failures.get(place)]
        if fit:
            needs = [course.load_results[place]["peak"] for place in fit]
            first = fit.index(baseline) if baseline in fit else 0
            for group in memory_groups(needs, memory_budget(), first):
                course.run([fit[i] for i in group])
        return [course.metrics(place) for place in range(len(targets))]


def _write_batches(feeds: Mapping[int, Mapping[str, Any]], folder: Path) -> dict[int, Path]:
    folder.mkdir()
    places = {batch: folder / str(batch) for batch in feeds}
    for batch, place in places.items():
        write_feeds(feeds[batch], place)
    return places


def compare_latencies(a: Latency, b: Latency) -> RatioInterval:
    """The time of `a` as a share of that of `b`, which ran beside it in the same rounds."""
    return latency_ratio(a, b)


@dataclass(slots=True)
class _BenchmarkRun:
    """What is known of each entry so far, by its place."""

    targets: list[BenchmarkTarget]
    feeds: list[dict[int, Path]]
    config: BenchmarkConfig
    folder: Path
    progress: Callable[[str], None]
    failures: dict[int, str] = field(default_factory=dict[int, str])
    load_results: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    providers: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])
    creations: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    times: dict[int, list[dict[int, CallTimes]]] = field(default_factory=dict[int, list[dict[int, CallTimes]]])
    process_count: int = 0

    def load_once(self, index: int) -> None:
        """One process of an entry alone."""
        self.progress(f"loading {self.targets[index].model.name}")
        entrant = self._new_worker(index)
        with ExitStack() as ending:
            ending.callback(entrant.terminate)
            self._try(index, lambda: self.load_results.update({index: self._load(index, entrant)}))
            if index not in self.failures:
                first = next(iter(self.feeds[index].values()))
                self._try(index, lambda: self.providers.update({index: entrant.provider_node_counts(first)}))

    def run(self, indices: Sequence[int]) -> None:
        """All sets of processes of some entries, which take turns."""
        for number in range(self.config.process_sets):
            self.progress(f"measuring, set {number + 1} of {self.config.process_sets}")
            for batches in self.times.values():
                batches.append({})  # empty for those that this set is without
            for place in indices:
                self.times.setdefault(place, [{} for _ in range(self._set_count())])
            self._run_set([p for p in indices if p not in self.failures], number)

    def _set_count(self) -> int:
        return max((len(sets) for sets in self.times.values()), default=1)

    def _run_set(self, indices: Sequence[int], number: int) -> None:
        random = Random(f"{self.config.seed}:{number}")  # noqa: S311 - an order, no secret
        with ExitStack() as ending:
            entrants = {place: self._new_worker(place) for place in indices}
            for entrant in entrants.values():
                ending.callback(entrant.terminate)
            for place, entrant in entrants.items():
                self._try(place, lambda p=place, e=entrant: self._load(p, e))
            for batch in sorted({batch for place in indices for batch in self.feeds[place]}):
                runners = {p: e for p, e in entrants.items() if p not in self.failures and batch in self.feeds[p]}
                found = interleave_calls(
                    runners, batch, self.config.min_time / self.config.process_sets, random, self._try
                )
                for place, times in found.items():
                    self.times[place][-1][batch] = times

    def metrics(self, index: int) -> ModelMetrics:
        """The figures of an entry."""
        if index in self.failures:
            return ModelMetrics(failure=self.failures[index])
        told = self.load_results[index]
        return ModelMetrics(
            creation_seconds=median(self.creations[index]),
            resident_bytes=told["resident"],
            peak_bytes=told["peak"],
            baseline_bytes=told["base"],
            providers=self.providers[index],
            latencies={
                batch: summarize_latency(batch, [s.get(batch) for s in self.times[index]])
                for batch in self.feeds[index]
            },
            threads=told["threads"],
        )

    def _new_worker(self, index: int) -> WorkerProxy:
        self.process_count += 1
        return WorkerProxy(self.folder / f"{index}-{self.process_count}", self.config.timeout)

    def _load(self, index: int, worker: WorkerProxy) -> dict[str, Any]:
        entry = self.targets[index]
        told = worker.load(entry.model, entry.config, self.feeds[index])
        self.creations.setdefault(index, []).append(told["creation"])
        return told

    def _try(self, index: int, call: Callable[[], object]) -> bool:
        try:
            call()
        except MeasurementFailed as e:
            self.failures[index] = str(e)
            return False
        return True


def summarize_latency(batch: int, sets: Sequence[CallTimes | None]) -> Latency:
    """The figures of all calls with a batch, of sets of which an entry may be missing in some."""
    calls = sorted(t for s in sets if s is not None for t in s.calls)
    rounds = tuple(tuple(s.rounds) if s is not None else () for s in sets)
    low, high = median_latency_interval(rounds)
    return Latency(batch, len(calls), median(calls), low, high, _quantile(calls, 0.95), _quantile(calls, 0.99), rounds)


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    """The least of the numbers that so large a share of them does not exceed."""
    return ordered[min(int(fraction * len(ordered)), len(ordered) - 1)]
