"""Interleaved benchmarks of several models, each in a worker process that is stopped while others run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import psutil

from ...core.ort import value_files
from ...core.ort.backends import strip_source_locations
from ...core.ort.sessions import SessionConfig
from ...core.ort.worker_process import RequestFailed, WorkerExit, WorkerProcess
from .metrics import Latency, ModelMetrics, median_latency_interval

AVAILABLE_SHARE = 0.5  # of the available memory for models: the needs of larger batches are unknown before they run
BLOCK_SECONDS = 0.025  # of the calls in a block: short for many rounds, long against the switch of processes
MAX_BLOCK_CALLS = 1000  # in a block
MIN_ROUNDS = 5  # of a set, for calls that do not take long
MIN_SLOW_ROUNDS = 2  # of a set, however long they take
OVERTIME_FACTOR = 4.0  # times the requested seconds, after which MIN_SLOW_ROUNDS suffice
REPLY_TIMEOUT = 900.0  # seconds for one reply
NPZ_KINDS = "biufc"
LAUNCHER = Path(__file__).with_name("worker_launcher.py")


class Runner(Protocol):
    """A model that can be timed."""

    def warm_up(self, batch: int) -> float:
        """Run until warm; the seconds of a call."""
        ...

    def time_calls(self, batch: int, calls: int, seconds: float) -> list[float]:
        """The seconds of each of so many calls, of about `seconds` each."""
        ...


class MeasurementFailed(Exception):
    """A model cannot be measured; the reason is one line."""


@dataclass(slots=True)
class WorkerProxy:
    """A worker process. A request that fails raises MeasurementFailed and ends it.

    onnxruntime's threads poll for work for up to 0.1 s after a call, which would slow down the next model; so the
    process is stopped by a signal between its blocks.
    """

    folder: Path
    timeout: float = REPLY_TIMEOUT
    command: tuple[str, ...] = (sys.executable, "-P", str(LAUNCHER))
    _process: WorkerProcess = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = WorkerProcess(self.command, self.timeout, self.folder / "log")

    def load(self, model: Path, config: SessionConfig, feeds: Mapping[int, Path]) -> dict[str, Any]:
        """Load a model, and run the first batch: the metrics of that."""
        folders = {str(batch): str(folder) for batch, folder in feeds.items()}
        return self._request("load", model=str(model.resolve()), setting=asdict(config), feeds=folders)

    def warm_up(self, batch: int) -> float:
        """Run until warm; the seconds of a call."""
        return self._request("warm_up", batch=batch)["seconds"]

    def time_calls(self, batch: int, calls: int, seconds: float) -> list[float]:
        """The seconds of each of so many calls, of about `seconds` each."""
        times = self._request("time_calls", batch=batch, calls=calls, seconds=seconds)["times"]
        return [max(t, 1) / 1e9 for t in times]

    def provider_node_counts(self, feeds: Path) -> dict[str, int]:
        """The number of nodes by the provider that ran them. This unloads the model."""
        return self._request("provider_node_counts", feeds=str(feeds))["providers"]

    def terminate(self) -> None:
        """End the process."""
        self._process.terminate()

    def _request(self, method: str, **arguments: Any) -> dict[str, Any]:
        self._signal(psutil.Process.resume)
        try:
            reply = self._process.request({"do": method, **arguments})
        except WorkerExit as e:
            raise MeasurementFailed(str(e)) from e
        except RequestFailed as e:
            self.terminate()
            message = " ".join(strip_source_locations(str(e)).split())[:300]
            raise MeasurementFailed(message or "onnxruntime gives no reason") from e
        self._signal(psutil.Process.suspend)
        return reply

    def _signal(self, send: Callable[[psutil.Process], None]) -> None:
        pid = self._process.pid
        if pid is not None:
            with suppress(psutil.NoSuchProcess):
                send(psutil.Process(pid))


def write_feeds(feeds: Mapping[str, Any], folder: Path) -> None:
    """Write inputs for a worker. Raises UnverifiableError for values that cannot be stored."""
    folder.mkdir()
    arrays: dict[str, Any] = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
    kinds = {a.dtype.kind if a.dtype.isbuiltin == 1 or a.dtype.kind in "OU" else "" for a in arrays.values()}
    if len(arrays) < len(feeds) or not kinds <= {*NPZ_KINDS, "O", "U"}:
        value_files.write_value(dict(feeds), folder / "value")
        return
    with (folder / "arrays.npz").open("wb") as file:
        np.savez(file, *(np.asarray(a, str) if a.dtype.kind == "O" else a for a in arrays.values()))
    (folder / "names.json").write_text(json.dumps(list(feeds)), encoding="utf-8")


@dataclass(slots=True)
class CallTimes:
    """Seconds of all calls of one model, and the median of each round."""

    calls: list[float] = field(default_factory=list[float])
    rounds: list[float] = field(default_factory=list[float])

    def add(self, block: list[float]) -> None:
        """Add a round."""
        self.calls += block
        self.rounds.append(median(block))


@dataclass(frozen=True, slots=True)
class BenchmarkTarget:
    """A model file, its session config, and `feeds` of its own by batch size, in place of the common ones."""

    model: Path
    config: SessionConfig
    feeds: Mapping[int, Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkConfig:
    """The effort: `min_time` seconds of calls for each target, in `process_sets` sets of fresh processes.

    `timeout` is in seconds, for one reply of a process.
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
    """Measure all targets, interleaved, with the same `feeds` (arrays by name, by batch size).

    First each target runs alone, to measure its memory, its providers, and whether it runs. Targets that do not fit
    into memory together run in groups, each with the `baseline`. Raises UnverifiableError for feeds that cannot be
    sent to a process.
    """
    with TemporaryDirectory() as folder:
        common = _write_batches(feeds, Path(folder) / "feeds")
        folders = [
            common if t.feeds is None else _write_batches(t.feeds, Path(folder) / f"feeds-{i}")
            for i, t in enumerate(targets)
        ]
        run = _BenchmarkRun(list(targets), folders, config, Path(folder), progress)
        for i in range(len(targets)):
            run.load_once(i)
        if loaded := [i for i in range(len(targets)) if i not in run.failures]:
            needs = [run.load_results[i]["peak"] for i in loaded]
            first = loaded.index(baseline) if baseline in loaded else 0
            for group in memory_groups(needs, int(psutil.virtual_memory().available * AVAILABLE_SHARE), first):
                run.run([loaded[i] for i in group])
        return [run.metrics(i) for i in range(len(targets))]


def memory_groups(needs: Sequence[int], budget: int, baseline: int) -> Iterator[list[int]]:
    """Indices of models in groups whose needs fit into the budget together, each with the `baseline`."""
    group, taken = [baseline], needs[baseline]
    for i, need in enumerate(needs):
        if i == baseline:
            continue
        if len(group) > 1 and taken + need > budget:
            yield sorted(group)
            group, taken = [baseline], needs[baseline]
        group.append(i)
        taken += need
    yield sorted(group)


def _write_batches(feeds: Mapping[int, Mapping[str, Any]], folder: Path) -> dict[int, Path]:
    folder.mkdir()
    for batch, arrays in feeds.items():
        write_feeds(arrays, folder / str(batch))
    return {batch: folder / str(batch) for batch in feeds}


def interleave_calls(
    runners: Mapping[int, Runner],
    batch: int,
    seconds: float,
    random: Random,
    try_call: Callable[[int, Callable[[], object]], bool],
) -> dict[int, CallTimes]:
    """Run blocks of calls of all runners in random order, round by round, until each has run for `seconds`.

    `try_call` makes a call for a runner, and returns False if it failed: the runner is then left out.
    """
    pace: dict[int, float] = {}
    times = {i: CallTimes() for i in runners}
    block = min(BLOCK_SECONDS, seconds / MIN_ROUNDS)

    def warm_up(i: int) -> None:
        pace[i] = max(runners[i].warm_up(batch), 1e-7)

    def run_block(i: int) -> None:
        calls = max(1, min(MAX_BLOCK_CALLS, round(block / pace[i])))
        times[i].add(runners[i].time_calls(batch, calls, pace[i]))

    left = [i for i in runners if try_call(i, lambda i=i: warm_up(i))]
    rounds = 0
    while left:
        spent = [sum(times[i].calls) for i in left]
        is_slow = rounds >= MIN_SLOW_ROUNDS and max(spent) >= OVERTIME_FACTOR * seconds
        if min(spent) >= seconds and (rounds >= MIN_ROUNDS or is_slow):
            break
        random.shuffle(left)
        left = [i for i in left if try_call(i, lambda i=i: run_block(i))]
        rounds += 1
    return {i: times[i] for i in left}


@dataclass(slots=True)
class _BenchmarkRun:
    """The results so far, by index of the target; `times` has one entry for each set of processes."""

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
        """Load a target alone."""
        self.progress(f"loading {self.targets[index].model.name}")
        worker = self._new_worker(index)
        with ExitStack() as exits:
            exits.callback(worker.terminate)
            if self._try(index, lambda: self.load_results.update({index: self._load(index, worker)})):
                first = next(iter(self.feeds[index].values()))
                self._try(index, lambda: self.providers.update({index: worker.provider_node_counts(first)}))

    def run(self, indices: Sequence[int]) -> None:
        """Run all sets of processes of some targets, interleaved."""
        for number in range(self.config.process_sets):
            self.progress(f"measuring, set {number + 1} of {self.config.process_sets}")
            for sets in self.times.values():
                sets.append({})  # stays empty for targets that are not in this set
            set_count = max((len(sets) for sets in self.times.values()), default=1)
            for i in indices:
                self.times.setdefault(i, [{} for _ in range(set_count)])
            self._run_set([i for i in indices if i not in self.failures], number)

    def _run_set(self, indices: Sequence[int], number: int) -> None:
        random = Random(f"{self.config.seed}:{number}")  # noqa: S311 - an order, no secret
        seconds = self.config.min_time / self.config.process_sets
        with ExitStack() as exits:
            workers = {i: self._new_worker(i) for i in indices}
            for worker in workers.values():
                exits.callback(worker.terminate)
            for i, worker in workers.items():
                self._try(i, lambda i=i, worker=worker: self._load(i, worker))
            for batch in sorted({batch for i in indices for batch in self.feeds[i]}):
                runners = {i: w for i, w in workers.items() if i not in self.failures and batch in self.feeds[i]}
                for i, times in interleave_calls(runners, batch, seconds, random, self._try).items():
                    self.times[i][-1][batch] = times

    def metrics(self, index: int) -> ModelMetrics:
        """The metrics of a target."""
        if index in self.failures:
            return ModelMetrics(failure=self.failures[index])
        loaded = self.load_results[index]
        return ModelMetrics(
            creation_seconds=median(self.creations[index]),
            resident_bytes=loaded["resident"],
            peak_bytes=loaded["peak"],
            baseline_bytes=loaded["base"],
            providers=self.providers[index],
            latencies={b: summarize_latency(b, [s.get(b) for s in self.times[index]]) for b in self.feeds[index]},
            threads=loaded["threads"],
        )

    def _new_worker(self, index: int) -> WorkerProxy:
        self.process_count += 1
        return WorkerProxy(self.folder / f"{index}-{self.process_count}", self.config.timeout)

    def _load(self, index: int, worker: WorkerProxy) -> dict[str, Any]:
        target = self.targets[index]
        reply = worker.load(target.model, target.config, self.feeds[index])
        self.creations.setdefault(index, []).append(reply["creation"])
        return reply

    def _try(self, index: int, call: Callable[[], object]) -> bool:
        try:
            call()
        except MeasurementFailed as e:
            self.failures[index] = str(e)
            return False
        return True


def summarize_latency(batch: int, sets: Sequence[CallTimes | None]) -> Latency:
    """The latency over all sets, None for sets without the model."""
    calls = sorted(t for s in sets if s is not None for t in s.calls)
    rounds = tuple(tuple(s.rounds) if s is not None else () for s in sets)
    low, high = median_latency_interval(rounds)
    p95, p99 = (calls[min(int(fraction * len(calls)), len(calls) - 1)] for fraction in (0.95, 0.99))
    return Latency(batch, len(calls), median(calls), low, high, p95, p99, rounds)
