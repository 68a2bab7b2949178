"""Measurements: providers, interleaving, confidence intervals, failing processes and feeds."""

import platform
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from math import exp, log
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
from msgspec import structs
from passwright.app.measure import benchmark, execution_provider
from passwright.app.measure.benchmark import (
    BenchmarkConfig,
    BenchmarkTarget,
    MeasurementFailed,
    WorkerProxy,
    memory_groups,
)
from passwright.app.measure.benchmark_worker import BenchmarkWorker, CallBlock, LoadMetrics
from passwright.app.measure.feeds import make_feeds
from passwright.app.measure.metrics import (
    Latency,
    ModelMetrics,
    RatioInterval,
    combined_ratio,
    latency_ratio,
    load_note,
    median_interval,
    median_latency_interval,
)
from passwright.app.report.number_text import ratio_with_bounds
from passwright.core.errors import ModelError, UnknownNameError, UnverifiableError, UsageError
from passwright.core.io.model_source import model_source
from passwright.core.ort.sessions import CPU, SessionConfig
from passwright.core.ort.value_files import read_value, write_value
from passwright.core.processes.watchdog import TimeLimitReached
from rewriting import cases, each, load

GOLDEN = Path(__file__).parent.parent / "golden_models"
USUAL = SessionConfig("ENABLE_ALL", prepack_weights=True)
LEAST = BenchmarkConfig(min_time=0.01, process_sets=2)


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [CPU, "OpenVINOExecutionProvider", "CUDAExecutionProvider"]
    monkeypatch.setattr(execution_provider, "available_providers", lambda: names)


PROVIDERS: dict[str, tuple[str, dict[str, str]]] = {
    "cpu": (CPU, {}),
    "CPUExecutionProvider": (CPU, {}),
    " Cuda ": ("CUDAExecutionProvider", {}),
    "openvino{device_type=CPU}": ("OpenVINOExecutionProvider", {"device_type": "CPU"}),
    'openvino{device="GPU,CPU", n=2}': ("OpenVINOExecutionProvider", {"device": "GPU,CPU", "n": "2"}),
    "CUDAEXECUTIONPROVIDER{device_id=0}": ("CUDAExecutionProvider", {"device_id": "0"}),
}


@pytest.mark.usefixtures("has")
def test_provider() -> None:
    found = {text: execution_provider.parse_provider(text) for text in PROVIDERS}
    assert {text: (p.name, dict(p.options)) for text, p in found.items()} == PROVIDERS


NO_PROVIDERS = {
    "": "a name is missing",
    "cpu,cuda": "name one execution provider, not 2",
    "cpu{": "a brace is not closed",
    "cpu{x}": "options have the form",
    "cpu{a=1,a=2}": "a is set twice",
    "openvno": "no execution provider openvno; it has cpu, openvino, cuda; did you mean openvino",
    "npu": "it has cpu, openvino, cuda",
    "ExecutionProvider": "it has cpu",
}


@pytest.mark.usefixtures("has")
@pytest.mark.parametrize(("text", "message"), NO_PROVIDERS.items())
def test_no_provider(text: str, message: str) -> None:
    with pytest.raises(UnknownNameError if "it has" in message else UsageError, match=message):
        execution_provider.parse_provider(text)


def test_this_onnxruntime_has_the_cpu() -> None:
    assert execution_provider.parse_provider("cpu").name == CPU
    assert execution_provider.short_name("CUDAExecutionProvider") == "cuda"


def of(*sets: list[float]) -> Latency:
    return Latency(1, 1, 1.0, 1.0, 1.0, 1.0, 1.0, tuple(map(tuple, sets)))


def drawn(rng: np.random.Generator, sets: int, rounds: int, true: float) -> tuple[Latency, Latency]:
    """Two models on a machine that slows down both at times, with an independent bias per process."""
    a: list[list[float]] = []
    b: list[list[float]] = []
    for _ in range(sets):
        machine = np.where(rng.random(rounds) < 0.2, rng.uniform(1, 4, rounds), 1.0)
        luck = rng.normal(0, 0.03, 2)
        noise = rng.lognormal(0, 0.05, (2, rounds))
        a.append(list(true * exp(luck[0]) * machine * noise[0]))
        b.append(list(exp(luck[1]) * machine * noise[1]))
    return of(*a), of(*b)


@pytest.mark.parametrize("sets", [2, 3, 5])
def test_equal_models_are_rarely_significant(sets: int) -> None:
    rng = np.random.default_rng(7)
    found = [latency_ratio(*drawn(rng, sets, 12, 1.0)).is_significant for _ in range(1000)]
    assert np.mean(found) < 0.075  # 5 % expected; random deviations above 2.5 % are rare


def test_interval_covers_the_true_ratio() -> None:
    rng = np.random.default_rng(8)
    found = [latency_ratio(*drawn(rng, 5, 12, 1.2)) for _ in range(500)]
    assert np.mean([i.low <= 1.2 <= i.high for i in found]) > 0.925
    assert np.mean([i.is_significant for i in found]) > 0.95


def lagged(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    """AR(1): each round is correlated with the previous one."""
    found = rng.normal(0, 0.03, n)
    for i in range(1, n):
        found[i] = 0.9 * found[i - 1] + found[i] * 0.19**0.5
    return found


def bursts(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    """Another process runs during some consecutive rounds."""
    found = rng.normal(0, 0.02, n)
    found[rng.integers(0, n) :][: rng.integers(1, max(2, n // 3))] += rng.exponential(0.5)
    return found


@pytest.mark.parametrize("noise", [lagged, bursts])
@pytest.mark.parametrize("rounds", [(12,) * 5, (3, 12, 48, 12, 2), (5, 5)], ids=str)
@pytest.mark.parametrize("luck", [0.0, 0.02])
def test_interval_covers_the_ratio_under_correlated_noise(noise: Any, rounds: Any, luck: float) -> None:
    rng = np.random.default_rng(10)

    def found() -> RatioInterval:
        shared = [noise(rng, n) for n in rounds]
        a, b = ([np.exp(s + noise(rng, len(s)) / 2 + rng.normal(0, luck)).tolist() for s in shared] for _ in range(2))
        return latency_ratio(of(*([1.1 * t for t in s] for s in a)), of(*b))

    held = np.mean([i.low <= 1.1 <= i.high for i in (found() for _ in range(400))])
    assert held >= 0.92  # more than 95 % if a set has few rounds


def test_rounds_are_paired() -> None:
    slow = [1.0, 5.0, 2.0, 9.0]
    found = latency_ratio(of([2 * t for t in slow], [2 * t for t in slow]), of(slow, slow))
    assert (found.low, found.ratio, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert found.is_significant


def test_is_significant() -> None:
    expected = {(1.0, 0.9, 1.1): False, (1.1, 1.0, 1.2): False, (1.1, 1.01, 1.2): True, (0.9, 0.8, 0.99): True}
    assert {interval: RatioInterval(*interval).is_significant for interval in expected} == expected


def test_single_set_uses_its_rounds() -> None:
    a = [1.0 + 0.01 * i for i in range(20)]
    found = latency_ratio(of(a), of([1.0] * 20))
    assert (found.low, found.high) == pytest.approx((a[5], a[14]))  # the 6th and 15th of 20: 95.9 %
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert median_interval([3.0]) == (3.0, 3.0)


def test_groups_without_common_sets_are_compared_by_levels() -> None:
    first = of([1.0, 1.1], [1.0, 1.2], [], [])
    second = of([], [], [2.0, 2.1], [2.0, 2.2])
    found = latency_ratio(second, first)
    assert found.low < found.ratio < found.high
    assert found.ratio == pytest.approx(exp(log(2.0) + (log(1.05) - log(1.1)) / 2), rel=0.05)


def test_disjoint_single_sets_use_extreme_rounds() -> None:
    found = latency_ratio(of([], [1.0, 1.1, 1.3]), of([1.0, 1.2, 1.2], []))
    assert (found.low, found.high) == pytest.approx((1.0 / 1.2, 1.3 / 1.0))


def test_median_interval_contains_the_median() -> None:
    low, high = median_latency_interval([[1.0, 1.1, 1.2], [1.0, 1.2, 1.3], [0.9, 1.0, 1.1]])
    assert low < 1.1 < high
    assert median_latency_interval([[2.0]]) == pytest.approx((2.0, 2.0))


GROUPS: list[tuple[list[int], int, int, list[list[int]]]] = [
    ([1, 1, 1], 9, 0, [[0, 1, 2]]),
    ([1, 1, 1], 2, 0, [[0, 1], [0, 2]]),
    ([3, 1, 1, 1], 3, 2, [[0, 2], [1, 2, 3]]),
    ([5, 5], 1, 0, [[0, 1]]),
    ([5], 1, 0, [[0]]),
]


@each(("needs", "room", "baseline", "expected"), GROUPS)
def test_groups(needs: list[int], room: int, baseline: int, expected: list[list[int]]) -> None:
    assert list(memory_groups(needs, room, baseline)) == expected


def block(seconds: list[float], waited: float = 0.0, on_core: Sequence[float] = ()) -> CallBlock:
    nanoseconds = [round(s * 1e9) for s in seconds]
    return CallBlock(nanoseconds, sum(nanoseconds), round(waited * 1e9), [round(s * 1e9) for s in on_core])


ONE_THREAD = dict.fromkeys(range(9), 1)


class Clock:
    """A runner whose calls take a given time on a simulated clock."""

    def __init__(self, seconds: float, log: list[tuple[str, int]], name: str) -> None:
        self.seconds, self.log, self.name = seconds, log, name

    def warm_up(self, batch: int) -> float:  # noqa: ARG002 - the arguments of a worker
        return self.seconds

    def time_calls(self, batch: int, calls: int, seconds: float) -> CallBlock:  # noqa: ARG002 - the arguments of a worker
        self.log.append((self.name, calls))
        return block([self.seconds] * calls)


def test_calls_alternate_for_the_minimum_time() -> None:
    log: list[tuple[str, int]] = []
    found = benchmark.interleave_calls(
        {0: Clock(0.001, log, "a"), 1: Clock(0.002, log, "b")}, 1, 1.0, Random(1), ONE_THREAD
    )
    assert all(sum(t.calls) >= 1.0 for t in found.values())
    pairs = [{name for name, _ in log[i : i + 2]} for i in range(0, len(log), 2)]
    assert all(pair == {"a", "b"} for pair in pairs)
    assert len(found[0].rounds) == len(found[1].rounds) == len(pairs)
    assert {log[i][0] for i in range(0, len(log), 2)} == {"a", "b"}  # each is first at times


def test_slow_models_run_few_rounds() -> None:
    log: list[tuple[str, int]] = []
    found = benchmark.interleave_calls(
        {0: Clock(3.0, log, "a"), 1: Clock(2.0, log, "b")}, 1, 0.4, Random(1), ONE_THREAD
    )
    assert len(found[0].rounds) == benchmark.MIN_SLOW_ROUNDS
    assert {calls for _, calls in log} == {1}


def test_fast_models_have_bounded_blocks() -> None:
    log: list[tuple[str, int]] = []
    benchmark.interleave_calls({0: Clock(1e-6, log, "a")}, 1, 0.01, Random(1), ONE_THREAD)
    assert max(calls for _, calls in log) == benchmark.MAX_BLOCK_CALLS


class Quitter(Clock):
    """A runner that fails after two blocks."""

    def time_calls(self, batch: int, calls: int, seconds: float) -> CallBlock:
        if len(self.log) == 2:
            raise MeasurementFailed("enough")
        return super().time_calls(batch, calls, seconds)


def test_failing_runner_is_excluded() -> None:
    runners = {0: Quitter(0.01, [], "a"), 1: Clock(0.01, [], "b")}
    found = benchmark.interleave_calls(runners, 1, 0.2, Random(1), ONE_THREAD)
    assert (found[0].failure, len(found[0].rounds)) == ("enough", 2)
    assert not found[1].failure
    assert sum(found[1].calls) >= 0.2


class SharedCore(Clock):
    """A runner on a core that another process uses: a call waits after each slice. With more threads, a core is free.

    Each `quiet` block, by number, does not wait.
    """

    SLICE, WAIT = 0.004, 0.012

    def __init__(self, seconds: float, threads: int = 1, quiet: Sequence[int] = ()) -> None:
        super().__init__(seconds, [], "")
        self.threads, self.quiet = threads, quiet

    def time_calls(self, batch: int, calls: int, seconds: float) -> CallBlock:
        super().time_calls(batch, calls, seconds)
        at, times = 0.0, list[float]()
        for _ in range(calls):
            begin, at = at, at + self.seconds
            waits = 0 if len(self.log) in self.quiet else int(at / self.SLICE) - int(begin / self.SLICE)
            times.append(self.seconds + waits * self.WAIT)
        waited = sum(times) - calls * self.seconds
        return block(times, waited, [self.seconds] * calls if self.threads == 1 else ())


def raced(*runners: SharedCore) -> tuple[RatioInterval, list[Latency]]:
    """The second one's time divided by the first one's, in three sets."""
    sets = [
        benchmark.interleave_calls(
            dict(enumerate(runners)), 1, 0.5, Random(n), {i: r.threads for i, r in enumerate(runners)}
        )
        for n in range(3)
    ]
    latencies = [benchmark.summarize_latency(1, [s[i] for s in sets]) for i in range(len(runners))]
    return latency_ratio(latencies[1], latencies[0]), latencies


def test_waits_for_a_core_are_not_in_a_ratio() -> None:
    """A call of half a slice waits at times, a longer one nearly each time; medians differ by more than their work."""
    short, long = SharedCore(0.0018), SharedCore(0.0036)
    medians = [float(np.median(r.time_calls(1, 20, 1.0).calls)) for r in (short, long)]
    assert medians[1] / medians[0] > 4
    found, latencies = raced(short, long)
    assert found.ratio == pytest.approx(2.0)
    assert not found.inconclusive
    assert [x.waited for x in latencies] == pytest.approx([0.75, 0.75], abs=0.02)
    assert [x.median for x in latencies] == pytest.approx([0.0018, 0.0036])
    # Longer for caches of other processes.
    assert (found.low, found.high) == pytest.approx((2.0 * exp(-0.075), 2.0 * exp(0.075)), rel=0.01)
    note = load_note([ModelMetrics(latencies={1: x}) for x in latencies])
    assert re.fullmatch(r"the machine is busy: .* waited 7\d% of the time for a core; the times exclude this", note)


def test_blocks_without_waits_decide_for_more_threads() -> None:
    found, latencies = raced(*(SharedCore(s, 2, quiet=range(3, 90, 3)) for s in (0.0018, 0.0036)))
    assert not any(x.is_disturbed for x in latencies)
    assert (found.ratio, found.inconclusive) == (pytest.approx(2.0), "")


def test_race_in_waits_is_inconclusive() -> None:
    found, latencies = raced(SharedCore(0.0018, 2), SharedCore(0.0036, 2))
    assert all(x.is_disturbed for x in latencies)
    busy = "the machine is busy: the processes waited 3.% of the time for a core"
    assert re.fullmatch(f"{busy}; measure again on a quiet machine, or with a single thread", found.inconclusive)
    assert found.low < 1
    assert not found.is_significant
    assert not found.is_slower
    assert ratio_with_bounds(found).startswith("inconclusive (0.95-")
    assert load_note([ModelMetrics(latencies={1: x}) for x in latencies]) == f"inconclusive: {found.inconclusive}"


@pytest.mark.slow
def test_races_beside_other_work_contain_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`benchmarks/races_under_load.py` runs a hundred of each kind."""
    monkeypatch.syspath_prepend(str(GOLDEN.parent / "benchmarks"))
    races = import_module("races_under_load")
    models = [races.save_layers(n, tmp_path / f"{n}.onnx") for n in (races.LAYERS, 2 * races.LAYERS)]
    with races.under("both cores"):
        outcomes = [races.outcome(r.now) for r in races.race(models, 1, 0.3, 0)]
    assert outcomes.count("missed") <= 1  # of five, at 95 %


def test_percentiles_of_calls() -> None:
    times = benchmark.CallTimes()
    times.add(block([float(i) for i in range(1, 101)]))
    found = benchmark.summarize_latency(4, [times, None])
    assert (found.p95, found.p99, found.calls) == (96.0, 100.0, 100)
    assert found.rounds == ((50.5,), ())
    assert found.throughput == pytest.approx(4 / 50.5)


SOME = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "file": np.array([["a", "bc"]], object),
    "half/s": np.ones(2, np.float16),
    "scalar": np.array(3, np.int64),
    "b": np.array([True]),
}


@pytest.mark.parametrize("others", [{}, {"list": [np.ones(2), np.zeros(1)], "none": None}], ids=["plain", "held"])
def test_feeds_round_trip(others: dict[str, Any], tmp_path: Path) -> None:
    write_value(SOME | others, tmp_path / "f")
    got = read_value(tmp_path / "f")
    assert list(got) == list(SOME | others)
    for name, array in SOME.items():
        assert got[name].dtype == array.dtype
        np.testing.assert_array_equal(got[name], array)


class FakeWorker:
    """A worker without a process: a model named `bad` does not load, and one named `crash` ends as it is timed."""

    def __init__(self, folder: Path, timeout: float, **_: Any) -> None:
        self.folder, self.timeout, self.model = folder, timeout, Path()

    def load(self, model: Path, config: SessionConfig, *_: Any) -> LoadMetrics:
        self.model = model
        if model.stem == "bad":
            raise MeasurementFailed(f"bad at {config.optimization_level}")
        return LoadMetrics(0.1, 10, 2, 20, 30, "f32")

    def provider_node_counts(self, _: Path) -> dict[str, int]:
        return {CPU: 1}

    def warm_up(self, _: int) -> float:
        return 0.01

    def time_calls(self, batch: int, calls: int, seconds: float) -> CallBlock:  # noqa: ARG002 - of a worker
        if self.model.stem == "crash":
            raise MeasurementFailed("it crashed")
        return block([0.01] * calls)

    def terminate(self) -> None: ...


def measured(monkeypatch: pytest.MonkeyPatch, *names: str, **options: Any) -> list[ModelMetrics]:
    monkeypatch.setattr(benchmark, "WorkerProxy", FakeWorker)
    targets = [BenchmarkTarget(Path(f"{name}.onnx"), USUAL) for name in names]
    return benchmark.run_benchmark(targets, {1: {"x": np.ones(1)}}, LEAST, **options)


def test_large_models_run_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "AVAILABLE_SHARE", 0.0)
    found = measured(monkeypatch, "a", "b", "c", baseline=1)
    sets = [[bool(r) for r in m.latencies[1].rounds] for m in found]
    assert sets == [[True, True, False, False], [True] * 4, [False, False, True, True]]


def test_process_of_a_model_alone_is_that_of_its_first_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it counts providers, for which it unloads the model, or there is no memory for all."""
    for finds, share, count in ((False, 0.5, 2 * 2), (True, 0.5, 3 * 2), (False, 0.0, 3 * 2)):
        loads, alive = list[Path](), set[Path]()

        class Counted(FakeWorker):
            def load(self, *arguments: Any) -> LoadMetrics:
                loads.append(self.folder)  # noqa: B023 - called in this round
                alive.add(self.folder)  # noqa: B023 - as above
                return super().load(*arguments)

            def terminate(self) -> None:
                alive.discard(self.folder)  # noqa: B023 - as above

        with monkeypatch.context() as patch:
            patch.setattr(benchmark, "WorkerProxy", Counted)
            patch.setattr(benchmark, "AVAILABLE_SHARE", share)
            config = structs.replace(LEAST, finds_providers=finds, process_sets=2)
            targets = [BenchmarkTarget(Path(f"{name}.onnx"), USUAL) for name in "ab"]
            found = benchmark.run_benchmark(targets, {1: {"x": np.ones(1)}}, config)
        assert (len(loads), len({*loads}), alive) == (count, count, set())
        assert all(m.set_peaks == (30, 30) for m in found)


def test_failing_models_do_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = {"bad": "bad at ENABLE_ALL", "a": "", "crash": "it crashed", "b": ""}
    found = measured(monkeypatch, *failures)
    assert [m.failure for m in found] == list(failures.values())
    assert [bool(m.latencies) for m in found] == [not failure for failure in failures.values()]


def test_a_set_that_the_time_limit_ends_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two models that ran alone and in a set, the second one does not start in the next set in time."""
    started = list[Path]()

    class LateWorker(FakeWorker):
        def load(self, model: Path, config: SessionConfig, *_: Any) -> LoadMetrics:
            started.append(model)
            if len(started) == last:
                raise TimeLimitReached
            return super().load(model, config)

    monkeypatch.setattr(benchmark, "WorkerProxy", LateWorker)
    targets = [BenchmarkTarget(Path(f"{name}.onnx"), USUAL) for name in "ab"]
    for last, sets in ((6, 1), (4, 0), (2, 0)):
        started.clear()
        config = structs.replace(LEAST, process_sets=9, until=monotonic() + 600, is_cut=True)
        found = benchmark.run_benchmark(targets, {1: {"x": np.ones(1)}}, config)
        assert [m.failure for m in found] == ["", ""]
        assert [[bool(r) for x in m.latencies.values() for r in x.rounds] for m in found] == [[True] * sets] * 2
        assert [len(m.set_peaks) for m in found] == [sets] * 2
        assert (combined_ratio(*found), found[1].peak_bytes > 0) == (None, last > 2)


def test_a_measurement_that_is_not_cut_has_times_of_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """`quantize` races candidates even where its time is over, as it cannot use one without a time."""
    monkeypatch.setattr(benchmark, "WorkerProxy", FakeWorker)
    targets = [BenchmarkTarget(Path(f"{name}.onnx"), USUAL) for name in "ab"]
    config = structs.replace(LEAST, process_sets=9, until=monotonic() - 1)
    found = benchmark.run_benchmark(targets, {1: {"x": np.ones(1)}}, config)
    assert [[*m.latencies] for m in found] == [[1], [1]]


def test_a_measurement_ends_in_time() -> None:
    """Real processes, which would take an hour; a call is waited for no longer than the limit either."""
    path, began = GOLDEN / "mlp_dropout.onnx", monotonic()
    config = BenchmarkConfig(min_time=3600.0, process_sets=1, until=began + 3, is_cut=True)
    (found,) = benchmark.run_benchmark([BenchmarkTarget(path, USUAL)], make_feeds(path).by_batch, config)
    assert not found.latencies
    assert monotonic() - began < 3 + 2


def test_models_are_measured(tmp_path: Path) -> None:
    """Really measured, beside a file that is no model."""
    path, bad = GOLDEN / "mlp_dropout.onnx", tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    feeds = make_feeds(path, batches=(1, 3))
    single = SessionConfig(intra_op_threads=1, prepack_weights=True)
    entries = [BenchmarkTarget(bad, USUAL), BenchmarkTarget(path, USUAL), BenchmarkTarget(path, single)]
    failed, usual, single = benchmark.run_benchmark(entries, feeds.by_batch, LEAST)
    assert "bad.onnx" in failed.failure
    assert "\n" not in failed.failure
    assert not usual.failure + single.failure
    assert usual.providers.keys() == {CPU}
    assert usual.providers[CPU] < single.providers[CPU]  # onnxruntime fused some at level all
    assert single.threads == 1
    for m in (usual, single):
        assert 0 < m.baseline_bytes < m.resident_bytes <= m.peak_bytes
        assert m.creation_seconds > 0
        assert list(m.latencies) == [1, 3]
        for latency in m.latencies.values():
            assert len(latency.rounds) == LEAST.process_sets
            assert all(len(r) >= benchmark.MIN_SLOW_ROUNDS for r in latency.rounds)
            assert latency.median <= latency.p95 <= latency.p99
    found = latency_ratio(usual.latencies[1], single.latencies[1])
    assert found.low <= found.ratio <= found.high


def test_inputs_without_rows_have_no_batch(tmp_path: Path) -> None:
    text = "g (float[N] x, float[N] z) => (float[N] y, float[N] w) { y = Abs(x) w = Abs(z) }"
    onnx.save(load(text), tmp_path / "m.onnx")
    given = {"x": np.ones(2, np.float32), "z": np.ones(0, np.float32)}
    for arrays in (given, {"x": given["z"], "z": given["x"]}):
        for feeds in make_feeds(tmp_path / "m.onnx", arrays, (1, 3)).by_batch.values():
            assert [name for name, a in feeds.items() if not a.size] == [n for n, a in arrays.items() if not a.size]


SERVE = """
from passwright.core.processes.worker_process import serve
class Worker:
    def warm_up(self, batch): {}
serve(Worker())
"""
FAILING = {
    "crashes": (SERVE.format("import os; os.kill(os.getpid(), 11)"), 300.0, "it crashed (SIGSEGV)"),
    "raises": ("raise MemoryError('none left')", 300.0, "it ended with exit code 1: MemoryError: none left"),
    "refuses": (SERVE.format("raise ValueError('/a/b.cc:12 Run no\\nkernel')"), 300.0, "no kernel"),
    "hangs": ("import time; time.sleep(600)", 0.5, "it did not end within 0.5 s"),
}


@cases(("code", "timeout", "message"), FAILING)
def test_failing_process_is_reported(code: str, timeout: float, message: str, tmp_path: Path) -> None:
    entrant = WorkerProxy(tmp_path / "e", timeout, (sys.executable, "-c", code))
    with pytest.raises(MeasurementFailed) as caught:
        entrant.warm_up(1)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def stops(process: psutil.Process) -> bool:
    """Whether the process stops: a signal takes a moment to arrive."""
    for _ in range(6000):
        if process.status() == psutil.STATUS_STOPPED:
            return True
        sleep(0.01)
    return False


def test_worker_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent kills it, and would not know of one."""
    path, given, own = GOLDEN / "mlp_dropout.onnx", tmp_path / "given", tmp_path / "own"
    write_value(make_feeds(path).by_batch[1], tmp_path / "f")
    given.mkdir()
    own.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(own))
    before = own.stat().st_mtime_ns
    worker = BenchmarkWorker()
    worker.load(path, USUAL, {1: tmp_path / "f"})
    assert worker.provider_node_counts(tmp_path / "f", given).keys() == {CPU}
    assert [*given.iterdir()] == []
    assert own.stat().st_mtime_ns == before


def test_process_is_stopped_between_turns(tmp_path: Path) -> None:
    path = GOLDEN / "mlp_dropout.onnx"
    write_value(make_feeds(path).by_batch[1], tmp_path / "f")
    entrant = WorkerProxy(tmp_path / "e")
    entrant.load(path, USUAL, {1: tmp_path / "f"})
    process = psutil.Process(entrant._process.pid)
    assert stops(process)
    assert entrant.warm_up(1) > 0
    assert stops(process)
    entrant.terminate()
    assert not process.is_running()


TINY = "g (float[{d}] x) => (float[{d}] y) {{ y = Relu(x) }}"


def fed(text: str, tmp_path: Path, **options: Any) -> Any:
    onnx.save(load(text), tmp_path / "m.onnx")
    return make_feeds(tmp_path / "m.onnx", **options)


def ones(*dims: int) -> dict[str, Any]:
    return {"given_inputs": {"x": np.ones(dims, np.float32)}}


FEEDS: list[tuple[str, dict[str, Any], dict[int, tuple[int, ...]], dict[str, int], str]] = [
    ("N,3", {"batches": (1, 4)}, {1: (1, 3), 4: (4, 3)}, {}, ""),
    ("N,time", {}, {1: (1, 64)}, {"time": 64}, ""),
    ("N,time", {"dims": {"time": 5}}, {1: (1, 5)}, {"time": 5}, ""),
    ("time,batch", {"batches": (1, 2)}, {1: (64, 1), 2: (64, 2)}, {"time": 64}, ""),
    ("2,3", {"batches": (1, 4)}, {2: (2, 3)}, {}, "the batch is fixed at 2"),
    ("1,3", {}, {1: (1, 3)}, {}, ""),
    ("N,3", {"dims": {"N": 7}, "batches": (1, 4)}, {7: (7, 3)}, {}, "the batch is fixed at 7"),
    ("N,3", {"shapes": {"x": (5, 3)}, "batches": (1, 4)}, {5: (5, 3)}, {}, "the batch is fixed at 5"),
    ("N,3", {**ones(2, 3), "batches": (1, 5)}, {1: (1, 3), 5: (5, 3)}, {}, ""),
    ("4,3", ones(4, 3), {4: (4, 3)}, {}, "the batch is fixed at 4"),
]


@pytest.mark.parametrize(("dims", "options", "shapes", "sizes", "note"), FEEDS)
def test_feeds(dims: str, options: Any, shapes: Any, sizes: Any, note: str, tmp_path: Path) -> None:
    found = fed(TINY.format(d=dims), tmp_path, **options)
    assert {batch: arrays["x"].shape for batch, arrays in found.by_batch.items()} == shapes
    assert (found.sizes, found.note) == (sizes, note)


def test_given_rows_are_repeated_in_order(tmp_path: Path) -> None:
    given = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    found = fed(TINY.format(d="N,3"), tmp_path, given_inputs=given, batches=(2, 3)).by_batch
    np.testing.assert_array_equal(found[2]["x"], given["x"])
    np.testing.assert_array_equal(found[3]["x"], given["x"][[0, 1, 0]])


def test_failing_batch_size_is_noted(tmp_path: Path) -> None:
    text = "g (float[N,4] x) => (float[2,2] y) <int64[2] s = {2,2}> { y = Reshape(x, s) }"
    found = fed(text, tmp_path, batches=(1, 3))
    assert list(found.by_batch) == [1]
    assert "it does not run with a batch of 3" in found.note


def test_a_model_without_inputs(tmp_path: Path) -> None:
    found = fed("g () => (float[2] y) <float[2] w = {1,2}> { y = Relu(w) }", tmp_path, batches=(1, 32))
    assert (found.by_batch, found.note) == ({1: {}}, "no input has a batch")


def test_dependent_sizes_are_found() -> None:
    found = make_feeds(GOLDEN / "gpt2.onnx")
    assert found.sizes == {"sequence": 8, "total": 16, "past": 8} or found.sizes["total"] == (
        found.sizes["sequence"] + found.sizes["past"]
    )


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, again, other = (make_feeds(GOLDEN / "mlp_dropout.onnx", seed=s).by_batch[1]["x"] for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


BAD_FEEDS: list[tuple[dict[str, Any], str]] = [
    ({"dims": {"M": 1}}, "--dim M: the inputs of the model have no such symbol"),
    ({"shapes": {"z": (1,)}}, "no such input"),
    ({"given_inputs": {"x": np.ones((1, 3))}}, "x of the given inputs is float64; the model needs float32"),
    ({"given_inputs": {}}, "lack x"),
    (ones(1, 3, 3), r"x of the given inputs has shape \[1,3,3\]; the model needs \[N,3\]"),
]


@pytest.mark.parametrize(("options", "message"), BAD_FEEDS)
def test_bad_feeds_are_rejected(options: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        fed(TINY.format(d="N,3"), tmp_path, **options)


TRAPS = """g (float[N,3] x) => (int32 y, float[N,3] z) <int32 least = {-2147483648}, int32 minus = {-1}>
    { y = Div(least, minus) z = Relu(x) }"""
FOREVER = """g (float[N,3] x) => (float[N,3] y) <int64 n = {9000000000000000000}, bool go = {1}>
    { y = Loop(n, go, x) <body = b (int64 i, bool c, float[N,3] v) => (bool d, float[N,3] w)
    { d = Identity(c) w = Identity(v) }> }"""


@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="division traps on x86 only")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has exit codes for signals")
def test_crash_of_onnxruntime_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnverifiableError, match=r"no inputs were found on which it runs: .*SIGFPE"):
        fed(TRAPS, tmp_path)


def test_endless_model_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passwright.app.measure.feeds.RUN_TIMEOUT", 0.1)
    with pytest.raises(UnverifiableError, match=r"m\.onnx: no inputs were found on which it runs: .*does not end"):
        fed(FOREVER, tmp_path)


def test_model_rejected_by_onnxruntime(tmp_path: Path) -> None:
    text = "g (float[N,3] x) => (float[N,3] y) { y = com.example.Nothing(x) }"
    onnx.save(load(text), tmp_path / "m.onnx")
    with pytest.raises(UnverifiableError, match=r"m\.onnx: there is no kernel for com\.example\.Nothing: "):
        make_feeds(model_source(tmp_path / "m.onnx", inline=False))
