"""Interleaved benchmarks of several models, each in a worker process that is stopped while others run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import Any

import psutil
from msgspec import Struct

from ...core.errors import MORE_MEMORY, OUT_OF_MEMORY, PassesError, TimeLimitError, UsageError
from ...core.ort.backends import is_lack_of_memory, session_memory, strip_source_locations
from ...core.ort.engines import ONNXRUNTIME
from ...core.ort.sessions import ENABLE_ALL, SessionConfig
from ...core.ort.value_files import with_arrays, write_value
from ...core.processes.process_limits import MODEL_MEMORY
from ...core.processes.watchdog import TimeLimitReached, ended_by
from ...core.processes.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command
from ...core.support.scratch_folder import ScratchFolder
from .benchmark_worker import BenchmarkWorker, CallBlock, LoadMetrics
from .execution_provider import ExecutionProvider
from .metrics import Latency, ModelMetrics, median_latency_interval

AVAILABLE_SHARE = 0.5  # of the available memory, for models; larger batches need an unknown amount
BLOCK_SECONDS = 0.025  # of calls in a block: short enough for many rounds, long compared with a switch of processes
MAX_BLOCK_CALLS = 1000  # in a block
MIN_ROUNDS = 5  # in a set, if calls are short
MIN_SLOW_ROUNDS = 2  # in a set, however long calls take
OVERTIME_FACTOR = 4.0  # multiple of the requested seconds, after which MIN_SLOW_ROUNDS suffice
WAITING_FACTOR = 2.0  # multiple of the requested seconds, after which a set that waits for a core ends
QUIET_SHARE = 0.02  # share of a set's time; shorter waits for a core are ignored
BLOCK_SHARE = 0.05  # share of a block; shorter waits of a thread are ignored
MAX_WAITED = 0.85  # share of the time; up to it, intervals of the time on a core were correct
MIN_SETS = 2  # needed for an interval
MIN_BLOCKS = 3  # blocks with little waiting in a set, needed if the time on a core is not meaningful
FAST_SHARE = 0.1  # of the calls on a core; slower ones begin with caches of other processes
REPLY_TIMEOUT = 900.0  # seconds for one reply
WORKER = module_command(BenchmarkWorker.__module__)


class MeasurementFailed(Exception):
    """A model cannot be measured; the message is one line."""


@dataclass(slots=True)
class WorkerProxy:
    """A worker process. A failed request raises MeasurementFailed and ends the process.

    onnxruntime's threads poll for work for up to 0.1 s after a call, which would slow down the next model. A signal
    therefore stops the process between its blocks. `engine` is the name in messages.
    """

    folder: Path
    timeout: float = REPLY_TIMEOUT
    command: tuple[str, ...] = WORKER
    memory: int | None = MODEL_MEMORY
    engine: str = ONNXRUNTIME
    _process: WorkerProcess[BenchmarkWorker] = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = WorkerProcess(self.command, self.timeout, self.folder / "log", self.memory)

    def load(self, model: Path, config: SessionConfig, feeds: Mapping[int, Path], callers: int = 1) -> LoadMetrics:
        """Load a model, run the first batch, and return metrics. `callers` is the number of threads that call it."""
        with self._running() as worker:
            return worker.load(model.resolve(), config, feeds, callers)

    def warm_up(self, batch: int) -> float:
        """Run until warm; return the seconds of a call."""
        with self._running() as worker:
            return worker.warm_up(batch)

    def time_calls(self, batch: int, calls: int, seconds: float) -> CallBlock:
        """Time this many calls, of about `seconds` each."""
        with self._running() as worker:
            return worker.time_calls(batch, calls, seconds)

    def is_divided(self, model: Path) -> bool:
        """Whether a model is divided between OpenVINO and onnxruntime."""
        with self._running() as worker:
            return worker.is_divided(model.resolve())

    def provider_node_counts(self, feeds: Path) -> dict[str, int]:
        """The number of nodes by the provider that ran them. Unloads the model."""
        with self._running() as worker:
            return worker.provider_node_counts(feeds, self.folder.absolute())

    def terminate(self) -> None:
        """End the process."""
        self._process.terminate()

    @contextmanager
    def _running(self) -> Generator[BenchmarkWorker]:
        """Resume the process for one method call."""
        self._signal(psutil.Process.resume)
        try:
            yield self._process.call()
        except WorkerExit as e:
            raise MeasurementFailed(str(e)) from e
        except (RequestFailed, PassesError) as e:
            self.terminate()
            if is_lack_of_memory(e):
                raise MeasurementFailed(f"{self.engine} {OUT_OF_MEMORY}; {MORE_MEMORY}") from e
            message = " ".join(strip_source_locations(str(e)).split())[:300]
            raise MeasurementFailed(message or f"{self.engine} failed without a message") from e
        self._signal(psutil.Process.suspend)

    def _signal(self, send: Callable[[psutil.Process], None]) -> None:
        pid = self._process.pid
        if pid is not None:
            with suppress(psutil.NoSuchProcess):
                send(psutil.Process(pid))


@dataclass(slots=True)
class CallTimes:
    """Seconds of all calls of one model in a set, and the median of each round; or a `failure`.

    `seconds` covers all blocks; in this time, all `threads` together `waited` for a core. If `is_disturbed`, the times
    include the waits.
    """

    threads: int = 1
    calls: list[float] = field(default_factory=list[float])
    rounds: list[float] = field(default_factory=list[float])
    failure: str = ""
    seconds: float = 0.0
    waited: float = 0.0
    is_disturbed: bool = False
    _on_core: list[float] = field(default_factory=list[float])
    _without_waits: list[float] = field(default_factory=list[float])

    @property
    def computed(self) -> float:
        """The seconds without the average time that threads waited for a core."""
        return max(self.seconds - self.waited / self.threads, 0.0)

    def add(self, block: CallBlock) -> float:
        """Add a round; return the seconds of its shortest call."""
        calls = [max(t, 1) / 1e9 for t in block.calls]
        self.calls += calls
        self.rounds.append(median(calls))
        self.seconds += block.elapsed / 1e9
        self.waited += block.waited / 1e9
        self._on_core += [max(t, 1) / 1e9 for t in block.on_core]
        if block.waited <= BLOCK_SHARE * block.elapsed:
            self._without_waits.append(self.rounds[-1])
        return min(calls + self._on_core[-len(block.on_core) :] if block.on_core else calls)

    def leave_out_waits(self, share: float) -> None:
        """Replace all rounds by one time without waits for a core, if there is enough data.

        A single thread uses its time on a core, unless the set's `share` of waiting is large; several threads use the
        blocks with little waiting.
        """
        if self._on_core and share <= MAX_WAITED:
            self.calls = self._on_core
            self.rounds = [quantile(sorted(self._on_core), FAST_SHARE)] * len(self.rounds)
        elif not self._on_core and len(self._without_waits) >= MIN_BLOCKS:
            self.rounds = [median(self._without_waits)] * len(self.rounds)
        else:
            self.is_disturbed = True


class BenchmarkTarget(Struct, frozen=True):
    """A model file, its session config, and `feeds` by batch size if they differ from the common ones.

    With several `callers`, that many threads call the session at the same time, and the time of a call is their total
    time divided by their number. `loaded`: the metrics of an earlier run alone, which is then not repeated.
    """

    model: Path
    config: SessionConfig
    feeds: Mapping[int, Mapping[str, Any]] | None = None
    callers: int = 1
    loaded: LoadMetrics | None = None


class BenchmarkConfig(Struct, frozen=True):
    """The effort: `min_time` seconds of calls for each target, in `process_sets` sets of fresh processes.

    `timeout` is in seconds, for one reply of a process. `finds_providers`: count nodes by provider, in a further
    session. After `fewest_sets`, a set is started only if it can end before `until`, a time of `monotonic`. If the
    measurement `is_cut`, it ends by then with the sets completed so far, perhaps none. Raises UsageError for an
    infinite `min_time`.
    """

    min_time: float = 2.0
    process_sets: int = 5
    seed: int = 0
    timeout: float = REPLY_TIMEOUT
    finds_providers: bool = True
    fewest_sets: int = MIN_SETS
    until: float = inf
    is_cut: bool = False

    def __post_init__(self) -> None:
        """Check the time."""
        if not isfinite(self.min_time):
            raise UsageError(f"--min-time {self.min_time}: not a finite number of seconds")


def run_benchmark(
    targets: Sequence[BenchmarkTarget],
    feeds: Mapping[int, Mapping[str, Any]],
    config: BenchmarkConfig,
    progress: Callable[[str], None] = lambda _: None,
    baseline: int = 0,
) -> list[ModelMetrics]:
    """Measure all targets, interleaved, with the same `feeds` (arrays by name, by batch size).

    Each target first runs alone, to measure its memory and providers, and whether it runs; unless it counted providers,
    its process also measures its first set. Targets that do not fit into memory together run in groups, each with the
    `baseline`. Raises UnverifiableError for feeds that cannot be sent to a process.
    """
    with ScratchFolder() as folder, ExitStack() as exits:
        budget = int(psutil.virtual_memory().available * AVAILABLE_SHARE)
        common = _write_batches(feeds, folder / "feeds")
        runs: list[_TargetRun] = []
        for i, t in enumerate(targets):
            own = common if t.feeds is None else _write_batches(t.feeds, folder / f"feeds-{i}")
            runs.append(_TargetRun(t, own, folder / str(i), config.timeout, loaded=t.loaded))
        with suppress(TimeLimitError), ended_by(config.until if config.is_cut else inf):
            for run in runs:
                progress(f"measuring: loading {run.target.model.name}")
                room = budget - sum(other.peak for other in runs if other is not run)
                run.run_alone(exits, room, finds_providers=config.finds_providers)
            loaded = [run for run in runs if not run.failure]
            first = loaded.index(runs[baseline]) if runs[baseline] in loaded else 0
            groups = [*memory_groups([run.peak for run in loaded], budget, first)] if loaded else []
            if len(groups) > 1:
                exits.close()
                for run in loaded:
                    run.ready = None
            for index, group in enumerate(groups):
                began, longest = monotonic(), 0.0
                end = began + (config.until - began) / (len(groups) - index)
                for number in range(config.process_sets):
                    set_began = monotonic()
                    if number >= config.fewest_sets and set_began + longest > end:
                        break
                    progress(f"measuring: set {number + 1} of {config.process_sets}")
                    _run_set(loaded, group, config, number)
                    longest = max(longest, monotonic() - set_began)
        return [run.metrics() for run in runs]


def race(
    models: Sequence[Path],
    feeds: Mapping[int, Mapping[str, Any]],
    threads: int,
    config: BenchmarkConfig,
    progress: Callable[[str], None],
) -> list[ModelMetrics]:
    """Measure models under ORT ALL, with onnxruntime's defaults on the CPU except for `threads`."""
    session = ExecutionProvider().session_config(ENABLE_ALL, threads)
    return run_benchmark([BenchmarkTarget(model, session) for model in models], feeds, config, progress)


def memory_groups(needs: Sequence[int], budget: int, baseline: int) -> Iterator[list[int]]:
    """Group indices of models so that each group fits into the budget, and contains the `baseline`."""
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
        write_value(with_arrays(arrays), folder / str(batch))
    return {batch: folder / str(batch) for batch in feeds}


@dataclass(eq=False)
class _TargetRun:
    """The measurements of a target so far. `sets` has the times by batch size for each set of processes.

    `ready` is a process with the target, for the next set.
    """

    target: BenchmarkTarget
    feeds: dict[int, Path]
    folder: Path
    timeout: float
    failure: str = ""
    loaded: LoadMetrics | None = None
    providers: dict[str, int] = field(default_factory=dict[str, int])
    creations: list[float] = field(default_factory=list[float])
    sets: list[dict[int, CallTimes]] = field(default_factory=list[dict[int, CallTimes]])
    set_peaks: list[int] = field(default_factory=list[int])
    ready: WorkerProxy | None = None

    def start_worker(self, exits: ExitStack) -> WorkerProxy:
        """The target in the `ready` process or a new one, which ends with `exits`."""
        worker, self.ready, peak = self.ready, None, self.peak
        if worker is None:
            folder, name = Path(f"{self.folder}-{len(self.creations)}"), self.target.config.engine_name
            worker = WorkerProxy(folder, self.timeout, memory=self.memory, engine=name)
            exits.callback(worker.terminate)
            with _record_failure(self):
                loaded = worker.load(self.target.model, self.target.config, self.feeds, self.target.callers)
                self.loaded, peak = self.loaded or loaded, loaded.peak
                self.creations.append(loaded.creation)
        exits.callback(worker.terminate)
        if self.sets:
            self.set_peaks[-1] = peak
        return worker

    @cached_property
    def memory(self) -> int:
        """The memory limit of a process, in bytes."""
        return session_memory(self.target.model, self.target.config, self.target.callers)

    @property
    def peak(self) -> int:
        """The peak memory in bytes when run alone."""
        return self.loaded.peak if self.loaded is not None else 0

    @property
    def threads(self) -> int:
        """The threads that compute an op."""
        return self.loaded.threads if self.loaded is not None else 1

    def run_alone(self, exits: ExitStack, room: int, *, finds_providers: bool) -> None:
        """Measure memory, and count the nodes of providers, unless already known.

        Without providers, the process is then `ready` until `exits`, if it takes at most `room` bytes.
        """
        if self.loaded is not None:
            return
        with ExitStack() as own:
            worker = self.start_worker(own)
            if finds_providers and not self.failure and self.target.config.is_onnxruntime:
                with _record_failure(self):
                    self.providers = worker.provider_node_counts(next(iter(self.feeds.values())))
            elif not self.failure and self.peak <= room:
                self.ready = worker
                exits.push(own.pop_all())

    def metrics(self) -> ModelMetrics:
        """The metrics of everything that was measured."""
        if self.loaded is None or self.failure:
            return ModelMetrics(failure=self.failure)
        times = {b: [s.get(b) for s in self.sets] for b in self.feeds}
        return ModelMetrics(
            precision=self.loaded.precision,
            creation_seconds=median(self.creations or [self.loaded.creation]),
            resident_bytes=self.loaded.resident,
            peak_bytes=self.loaded.peak,
            baseline_bytes=self.loaded.base,
            providers=self.providers,
            latencies={b: summarize_latency(b, found) for b, found in times.items() if any(found)},
            threads=self.threads,
            set_peaks=tuple(self.set_peaks),
            virtual_bytes=self.loaded.virtual,
            creations=tuple(self.creations),
        )


@contextmanager
def _record_failure(subject: _TargetRun | CallTimes) -> Generator[None]:
    try:
        yield
    except MeasurementFailed as e:
        subject.failure = str(e)


def _run_set(loaded: Sequence[_TargetRun], group: Sequence[int], config: BenchmarkConfig, number: int) -> None:
    """Run a group of targets in fresh processes, interleaved, at each of their batch sizes.

    A set that the time limit ends is removed.
    """
    for run in loaded:
        run.sets.append({})  # stays empty for targets that are not in this set
        run.set_peaks.append(0)  # as above
    try:
        _interleave([loaded[i] for i in group if not loaded[i].failure], config, number)
    except TimeLimitReached:
        for run in loaded:
            del run.sets[-1], run.set_peaks[-1]
        raise


def _interleave(runs: Sequence[_TargetRun], config: BenchmarkConfig, number: int) -> None:
    random = Random(f"{config.seed}:{number}")  # noqa: S311 - an order, no secret
    with ExitStack() as exits:
        started = [run.start_worker(exits) for run in runs]
        for batch in sorted({batch for run in runs for batch in run.feeds}):
            workers = {i: started[i] for i, run in enumerate(runs) if not run.failure and batch in run.feeds}
            threads = {i: max(run.threads, run.target.callers) for i, run in enumerate(runs)}
            seconds = config.min_time / config.process_sets
            for i, times in interleave_calls(workers, batch, seconds, random, threads).items():
                runs[i].failure = times.failure
                runs[i].sets[-1][batch] = times


def interleave_calls(
    workers: Mapping[int, WorkerProxy], batch: int, seconds: float, random: Random, threads: Mapping[int, int]
) -> dict[int, CallTimes]:
    """Run blocks of calls of all workers in random order, round by round, until each has computed for `seconds`.

    A worker that raises MeasurementFailed is skipped from then on. If processes waited for a core, the median call is
    not meaningful: a short call ends before the scheduler lets another process run, a long call never does. All times
    are then without waits.
    """
    pace: dict[int, float] = {}
    times = {i: CallTimes(threads[i]) for i in workers}
    block = min(BLOCK_SECONDS, seconds / MIN_ROUNDS)
    for i, worker in workers.items():
        with _record_failure(times[i]):
            pace[i] = max(worker.warm_up(batch), 1e-7)
    left = list(pace)
    rounds = 0
    while left:
        spent = [times[i].seconds for i in left]
        is_slow = rounds >= MIN_SLOW_ROUNDS and max(spent) >= OVERTIME_FACTOR * seconds
        has_time = min(times[i].computed for i in left) >= seconds or min(spent) >= WAITING_FACTOR * seconds
        if has_time and (rounds >= MIN_ROUNDS or is_slow):
            break
        random.shuffle(left)
        for i in left:
            with _record_failure(times[i]):
                calls = max(1, min(MAX_BLOCK_CALLS, round(block / pace[i])))
                pace[i] = min(pace[i], max(times[i].add(workers[i].time_calls(batch, calls, pace[i])), 1e-7))
        left = [i for i in left if not times[i].failure]
        rounds += 1
    measured = [t for t in times.values() if t.rounds]
    share = 1 - sum(t.computed for t in measured) / max(sum(t.seconds for t in measured), 1e-9)
    if share > QUIET_SHARE:
        for t in measured:
            t.leave_out_waits(share)
    return times


def summarize_latency(batch: int, sets: Sequence[CallTimes | None]) -> Latency:
    """The latency over all sets; None marks sets without the model.

    Sets whose times include waits are skipped if two others remain.
    """
    found = [s for s in sets if s is not None and s.rounds]
    is_disturbed = sum(not s.is_disturbed for s in found) < min(MIN_SETS, len(found))
    used = [s if s is not None and s.rounds and (is_disturbed or not s.is_disturbed) else None for s in sets]
    calls = sorted(t for s in used if s is not None for t in s.calls)
    rounds = tuple(tuple(s.rounds) if s is not None else () for s in used)
    low, high = median_latency_interval(rounds)
    tails = tuple(quantile(sorted(s.calls), 0.99) if s is not None else 0.0 for s in used)
    p95, p99 = quantile(calls, 0.95), quantile(calls, 0.99)
    waited = 1 - sum(s.computed for s in found) / sum(s.seconds for s in found)
    middle = min(max(median(calls), low), high)  # caches of other processes make some calls slower
    return Latency(batch, len(calls), middle, low, high, p95, p99, rounds, tails, waited, is_disturbed)


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """The given quantile of ordered numbers."""
    return ordered[min(int(fraction * len(ordered)), len(ordered) - 1)]
