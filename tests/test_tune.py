"""`passes tune`: the search on simulated machines, its outcome, and the files that it writes."""

import json
import multiprocessing
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp, log
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import psutil
import pytest
from msgspec import structs
from passwright.app.bisect.ort_optimizers import MODIFIED, logged_optimizers
from passwright.app.cli.entry import app
from passwright.app.measure import benchmark
from passwright.app.measure.benchmark import BenchmarkTarget
from passwright.app.measure.metrics import Latency, ModelMetrics, combined_ratio, peak_ratio
from passwright.app.measure.tuned_settings import DEFAULT_SESSION, Configuration, Recipe
from passwright.app.options import parse_dim_sizes
from passwright.app.quantize.journal import Journal
from passwright.app.quantize.search import Limits
from passwright.app.report.page import page_html
from passwright.app.tune.decisions import (
    ENGINE,
    ONE_THREAD,
    Choice,
    configured,
    engine_choices,
    engine_pipeline,
    engine_session_choices,
    engines_to_try,
    installed_providers,
    opset_choices,
    optimizer_choices,
    pipeline_choices,
    session_choices,
    with_engine_pipeline,
)
from passwright.app.tune.document import comparison_rows, describe, summary_lines, tune_tiles
from passwright.app.tune.loss_limit import LossLimit
from passwright.app.tune.objective import Objective, noise, widened
from passwright.app.tune.outcome import LastRace, finalists, race_finalists
from passwright.app.tune.racing import LAST, LIMITED, RUNGS, RaceResult, Racing, Workload, make_workloads
from passwright.app.tune.search import AGAIN, RaceTrial, TuningSearch
from passwright.app.tune.session_script import session_script
from passwright.app.tune.tuned_models import MadeModel, TunedModels
from passwright.core.errors import ModelError, PassesError, TimeLimitError, UsageError
from passwright.core.io.model_source import model_source
from passwright.core.ort.engines import EngineChoice
from passwright.core.support.confidence_intervals import RatioInterval
from passwright.core.verify.given_inputs import read_samples
from passwright.core.verify.input_specs import input_specs
from passwright.core.verify.oracle_process import OracleProcess
from passwright.passes.pipelines import BASIC, BUILT_IN, OPTIONAL_PASSES
from passwright.passes.targets import ORT
from passwright.passes.trades import OPTIONAL, TRADING
from passwright.testing.rewriting import load, op_types
from rewriting import cases
from sample_reports import tuning
from simulated_races import SimulatedMachine
from tiers import needs_openvino
from typer.testing import CliRunner

from passwright import tune

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
TEXT = """g (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}>
{ a = Identity(x) b = Relu(a) c = Relu(b) y = Mul(c, w) }"""
LATENCY = Objective()
MODELS_AND_SESSIONS = 18  # choices of two cores, and one more, before the others of opsets, rules and optimizers
LONG = Limits(1000, 1e9)
QUIET, BUSY = 0.005, 0.35  # the spread of processes


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(load(TEXT, 17), path)
    return path


@dataclass
class Models:
    """Models without files: each recipe has a digest of its own, and `sizes` in bytes."""

    sizes: Mapping[Recipe, int] = field(default_factory=dict[Recipe, int])
    failing: frozenset[Recipe] = frozenset()
    seconds: float = 0.0

    def get(self, recipe: Recipe) -> MadeModel:
        if recipe in self.failing:
            raise PassesError(f"{recipe.pipeline} fails")
        return MadeModel(Path(repr(recipe)), self.sizes.get(recipe, 1000), repr(recipe))


def simulated(
    machine: SimulatedMachine,
    monkeypatch: pytest.MonkeyPatch,
    objective: Objective = LATENCY,
    limits: Limits = LONG,
    journal: Journal | None = None,
    models: Models | None = None,
) -> TuningSearch:
    monkeypatch.setattr(benchmark, "run_benchmark", machine.run_benchmark)
    workloads = [Workload("N=1", 1, {}), Workload("N=8", 8, {})]
    made: Any = models or Models()
    racing = Racing(made, workloads, objective, 1.0, 0, journal or Journal())
    return TuningSearch(racing, objective, limits)


def effects(factors: Mapping[str, float]) -> Any:
    """The time of a target: 1 ms times the factors of the settings and pipelines that it has."""

    def seconds(target: BenchmarkTarget) -> float:
        session = target.config
        has = {
            "one thread": session.intra_op_threads == 1, "two threads": session.intra_op_threads == 2,
            "sleep": not session.allow_spinning, "no arena": not session.cpu_arena, "parallel": session.parallel,
            "callers": target.callers > 1, "basic": "basic" in str(target.model), "ort": "'ort'" in str(target.model),
            "extended": session.optimization_level == "ENABLE_EXTENDED", "opset": "opset=20" in str(target.model),
        }  # fmt: skip
        return 1e-3 * exp(sum(log(factor) for name, factor in factors.items() if has[name]))

    return seconds


def search_all(search: TuningSearch, *, is_concurrent: bool = False) -> TuningSearch:
    """The stages with the choices of a machine of two cores."""
    search.decide("pipelines", pipeline_choices(["basic", "ort"], []))
    search.decide("sessions", session_choices(2, [], is_concurrent=is_concurrent))
    search.decide("opsets", opset_choices(17, 17, 23))
    return search


def test_search_finds_what_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    true = {"ort": 0.8, "basic": 0.9, "one thread": 0.7, "two threads": 1.01, "sleep": 1.3, "no arena": 0.9}
    machine = SimulatedMachine(effects(true), spread=QUIET)
    search = search_all(simulated(machine, monkeypatch))
    assert {d: c.label for d, c in search.chosen.items()} == {
        "pipeline": "ort", "intra-op threads": "1", "cpu arena": "no arena",
    }  # fmt: skip
    assert search.ratio == pytest.approx(0.8 * 0.7 * 0.9, rel=0.02)
    outcomes = {t.choice: t.outcome for t in search.trials}
    assert outcomes["pipeline: basic"] == "ort is better or equal"
    assert outcomes["allow spinning: threads sleep"] in {"worse", "behind others in round 1"}
    assert [o for o in outcomes.values() if not o] == []
    decisions = {d.decision: d for d in search.ablate()}
    for name, factor in (("pipeline", 0.8), ("intra-op threads", 0.7), ("cpu arena", 0.9)):
        brought = decisions[name].brought
        assert brought is not None
        assert (brought.ratio, decisions[name].is_kept) == (pytest.approx(factor, rel=0.02), True)
        assert brought.low <= factor * 1.01
        assert brought.high >= factor * 0.99
    assert "0.50 of the original's p50 latency by pipeline: ort" in search.learnt


def test_quantized_model_is_raced_beside_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quantized model is faster in onnxruntime than another precision, and slow in that: it is what is taken."""

    def seconds(target: BenchmarkTarget) -> float:
        is_quantized, is_bf16 = "dynamic" in str(target.model), target.config.precision == "bf16"
        return {(True, True): 2.8, (True, False): 0.3, (False, True): 0.5}.get((is_quantized, is_bf16), 1.0)

    search = simulated(SimulatedMachine(seconds, spread=QUIET), monkeypatch)
    search.race.limit = Unlimited()
    bf16 = engine_choices([EngineChoice("openvino", "bf16")], DEFAULT_SESSION)
    search.decide("engines and pipelines", [*bf16, *pipeline_choices(["basic"], [])], pipeline_choices([], ["dynamic"]))
    assert {str(c) for c in search.chosen.values()} == {"pipeline: quantize dynamic"}
    assert search.ratio == pytest.approx(0.3, rel=0.05)
    assert [d.brought.ratio for d in search.ablate() if d.brought] == [pytest.approx(0.3, rel=0.05)]
    races = len(search.race.results)
    search.decide("engines and pipelines", bf16)
    assert (search.trials[-1].outcome, len(search.race.results)) == (AGAIN, races)


def test_late_choices_are_made_if_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that takes long to make is raced alone where no other is better, and not at all when time is short."""
    scheme = pipeline_choices([], ["dynamic"])
    machine = SimulatedMachine(lambda target: 0.3 if "dynamic" in str(target.model) else 1.0, spread=QUIET)
    for first in ([], pipeline_choices(["basic"], [])):
        search = simulated(machine, monkeypatch)
        search.decide("pipelines", first, scheme)
        assert [str(c) for c in search.chosen.values()] == ["pipeline: quantize dynamic"]
    search = simulated(machine, monkeypatch, limits=Limits(1000, 1000.0))
    search.race.results.append(RaceResult((), None, 1, process_seconds=60.0))
    search.decide("pipelines", [], scheme)
    assert (search.chosen, [t.outcome for t in search.trials]) == ({}, [LIMITED])
    assert finalists(search, [], ["dynamic"]) == [{}, {ONE_THREAD.decision: ONE_THREAD}]  # nor for the last race


class Unlimited(LossLimit):
    """Allows any loss."""

    def __init__(self) -> None:
        """Need no criteria."""

    def require_within(self, *_: object) -> None:
        """Allow it."""


def test_engine_with_a_target_has_its_pipeline() -> None:
    """The rewrites for onnxruntime are not raced in OpenVINO, whose target leaves out what is slow there."""
    (engine,) = engine_choices([EngineChoice("openvino")], DEFAULT_SESSION)
    found = configured([engine, pipeline_choices(["ort"], [])[0]], Configuration())
    assert (found.recipe, engine_pipeline(found.session)) == (Recipe("openvino"), "openvino")
    found.recipe.require_known()
    chosen = with_engine_pipeline({c.decision: c for c in (engine, *pipeline_choices(["ort"], []))})
    assert [str(c) for c in chosen.values()] == ["engine: openvino", "pipeline: openvino"]
    assert configured([engine, *pipeline_choices([], ["dynamic"])], Configuration()).recipe == Recipe(scheme="dynamic")
    assert configured(pipeline_choices(["ort"], []), Configuration()).recipe == Recipe("ort")
    assert engine_pipeline(replace_session(engine="mine")) == engine_pipeline(DEFAULT_SESSION) == ""


def replace_session(**settings: Any) -> Any:
    return structs.replace(DEFAULT_SESSION, **settings)


@pytest.mark.parametrize("process", [0.5, 2.0])
@pytest.mark.parametrize("slower", [1.0, 1.5])
@pytest.mark.parametrize("seconds", [20.0, 60.0, 100.0, 240.0, 1000.0])
def test_time_is_for_all_races(monkeypatch: pytest.MonkeyPatch, process: float, slower: float, seconds: float) -> None:
    """On a simulated clock the last race ends in time, with fewer sets and models if need be, or without a verdict.

    Each process takes so many seconds, and longer by a factor after a third of the time, as other work begins.
    """
    now = [0.0]

    def take(processes: int) -> None:
        now[0] += processes * process * (slower if now[0] > seconds / 3 else 1.0)

    class Clocked(SimulatedMachine):
        def run_benchmark(self, targets: Any, feeds: Any, config: Any, *rest: Any) -> list[ModelMetrics]:
            take(sum(t.loaded is None for t in targets))
            sets, longest = 0, 0.0
            while sets < config.process_sets and (sets < config.fewest_sets or now[0] + longest <= config.until):
                began = now[0]
                take(len(targets))
                if now[0] > config.until:
                    break
                sets, longest = sets + 1, max(longest, now[0] - began)
            now[0] = min(now[0], config.until)
            if not sets:
                return [ModelMetrics() for _ in targets]
            return super().run_benchmark(targets, feeds, structs.replace(config, process_sets=sets), *rest)

    for module in ("search", "racing"):
        monkeypatch.setattr(f"passwright.app.tune.{module}.monotonic", lambda: now[0])
    machine = Clocked(effects({"ort": 0.8, "one thread": 0.7, "no arena": 0.9}), spread=QUIET)
    search = simulated(machine, monkeypatch, limits=Limits(1000, seconds))
    search.began = 0.0
    search_all(search)
    search.ablate()
    found, last = last_race(search)
    assert now[0] <= 0.9 * seconds
    assert not (last.best and last.is_late)
    assert "pipeline: ort" in found or seconds < 60 * process * slower
    assert len(found) == 3 or seconds < 250 * process * slower


def test_models_run_alone_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(effects({"ort": 0.8}))
    search_all(simulated(machine, monkeypatch))
    first, *others = ([(str(t.model), t.config, t.loaded) for t in race] for race in machine.races)
    seen = {target[:2] for target in first}
    assert not any(loaded for *_, loaded in first)
    for race in others:
        known = [loaded is not None for model, config, loaded in race if (model, config) in seen]
        assert known
        assert all(known)
        seen |= {target[:2] for target in race}


def test_search_is_deterministic_but_for_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> tuple[list[Any], list[Any]]:
        machine = SimulatedMachine(effects({"ort": 0.8, "one thread": 0.9}), seed=3)
        search = search_all(simulated(machine, monkeypatch))
        return search.trials, machine.races

    assert run() == run()


def test_choice_that_is_worse_leaves_early(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(effects({"sleep": 5.0, "one thread": 0.8, "parallel": 4.0, "extended": 3.0}))
    search = simulated(machine, monkeypatch)
    search.decide("sessions", session_choices(2, [], is_concurrent=False))
    raced_slow = sum(any(not t.config.allow_spinning for t in race) for race in machine.races)
    raced_fast = sum(any(t.config.intra_op_threads == 1 for t in race) for race in machine.races)
    assert raced_slow == 1 < raced_fast
    lengths = [len(race) for race in machine.races[1:]]  # after that of the original alone
    assert all(a > b for a, b in pairwise(lengths))


def test_redundant_decision_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two choices gains alone, and nothing beside the other; a third one never does."""

    def seconds(target: BenchmarkTarget) -> float:
        return 0.7e-3 if target.config.intra_op_threads == 1 or not target.config.cpu_arena else 1e-3

    search = simulated(SimulatedMachine(seconds, jitter=0.001), monkeypatch)
    choices = {str(c): c for c in session_choices(2, [], is_concurrent=False)}
    both = [choices["intra-op threads: 1"], choices["cpu arena: no arena"]]
    useless = choices["memory patterns: no memory patterns"]
    search.chosen = {c.decision: c for c in (*both, useless)}
    decisions = search.ablate()
    assert sorted(d.is_kept for d in decisions) == [False, False, True]  # without both, it is slower
    assert {d.decision for d in decisions if d.is_kept} == set(search.chosen) < {c.decision for c in both}
    search.chosen = {c.decision: c for c in (both[0], useless)}
    assert [d.is_kept for d in search.ablate()] == [True, False]
    assert list(search.chosen) == ["intra-op threads"]


def test_session_of_one_thread_has_no_settings_of_others() -> None:
    """Threads that there are not neither spin nor share blocks, so that no race tells such settings apart."""
    choices = {str(c): c for c in session_choices(2, [], is_concurrent=False)}
    named = ("intra-op threads: 1", "block size: dynamic, 2", "allow spinning: threads sleep")
    alone = configured([choices[named[0]]], Configuration())
    assert configured([choices[name] for name in named], Configuration()) == alone
    parallel = choices["execution: parallel, 2 inter-op threads"]
    assert not configured([*(choices[name] for name in named), parallel], Configuration()).session.allow_spinning


# The last race: each pipeline in the usual session, in one thread and in the session found.


def last_race(search: TuningSearch) -> tuple[set[str], LastRace]:
    """The choices of the best finalist, as texts, and the race."""
    last = race_finalists(search, finalists(search, ["basic", "ort"]))
    return set(map(str, last.field[last.best].values())), last


@pytest.mark.parametrize("seed", range(6))
def test_last_race_is_won_by_the_best_of_all_pipelines(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The search found a session and a pipeline, or nothing: another pipeline is better, also in that session."""
    machine = SimulatedMachine(effects({"ort": 0.9, "basic": 0.95, "one thread": 0.8}), seed=seed, spread=QUIET)
    search = simulated(machine, monkeypatch)
    assert last_race(search)[0] == {"pipeline: ort", "intra-op threads: 1"}
    search.decide("pipelines", pipeline_choices(["basic"], []))
    search.decide("sessions", session_choices(2, [], is_concurrent=False))
    assert set(map(str, search.chosen.values())) == {"pipeline: basic", "intra-op threads: 1"}
    assert last_race(search)[0] == {"pipeline: ort", "intra-op threads: 1"}


def test_ties_in_the_last_race_go_to_fewer_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(effects({"ort": 0.8, "basic": 0.8, "no arena": 0.9999}), spread=0.0005, jitter=0.0005)
    search = simulated(machine, monkeypatch)
    arena = next(c for c in session_choices(2, [], is_concurrent=False) if c.decision == "cpu arena")
    ort_choice = pipeline_choices(["ort"], [])[0]
    search.chosen = {"pipeline": ort_choice, "cpu arena": arena}
    found, last = last_race(search)
    assert found == {"pipeline: basic"}
    assert len(last.field) == 4  # the original, and those close to the best


@pytest.mark.parametrize(("factor", "taken"), [(1.0, "basic"), (0.995, "basic"), (0.9, "ort")])
def test_ties_in_the_last_race_go_to_a_much_smaller_model(
    monkeypatch: pytest.MonkeyPatch, factor: float, taken: str
) -> None:
    """Only where the race cannot tell their times apart."""
    machine = SimulatedMachine(effects({"ort": 0.5 * factor, "basic": 0.5}), spread=0.02)
    models = Models({Recipe("ort"): 1000, Recipe("basic"): 500})
    search = simulated(machine, monkeypatch, models=models)
    assert f"pipeline: {taken}" in last_race(search)[0]


@pytest.mark.parametrize("spread", [QUIET, BUSY])
def test_last_race_has_no_false_winner(monkeypatch: pytest.MonkeyPatch, spread: float) -> None:
    """All finalists take the same time: in few of many searches one is surely better than the original by chance."""
    winners = 0
    for seed in range(40):
        search = simulated(SimulatedMachine(effects({}), seed=seed, spread=spread), monkeypatch)
        search.chosen = {c.decision: c for c in session_choices(2, [], is_concurrent=False)}
        winners += bool(last_race(search)[0])
    assert winners <= 4


def test_finalists_run_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    models = Models(failing=frozenset({Recipe("ort")}))
    search = simulated(SimulatedMachine(effects({})), monkeypatch, models=models)
    basic, alone = {"pipeline": pipeline_choices(["basic"], [])[0]}, {ONE_THREAD.decision: ONE_THREAD}
    assert finalists(search, ["none", "basic", "ort"]) == [{}, basic, alone, basic | alone]
    zero = Choice("denormals as zero", "on", session={"denormals_as_zero": True})
    opset = Choice("opset", "20", recipe={"opset": 20})
    search.chosen = {c.decision: c for c in (opset, zero, ONE_THREAD)}
    found = [sorted(map(str, choices.values())) for choices in finalists(search, ["none"])]
    assert found == [
        [], ["intra-op threads: 1"], ["intra-op threads: 1", "opset: 20"],
        ["denormals as zero: on", "intra-op threads: 1", "opset: 20"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("objective", "taken"),
    [
        (Objective("latency"), {"intra-op threads": "1"}),
        (Objective("throughput"), {"callers": "2 of 1 thread"}),
        (Objective("memory"), {"cpu arena": "no arena"}),
        (Objective("size"), {"pipeline": "basic"}),
    ],
)
def test_objectives(monkeypatch: pytest.MonkeyPatch, objective: Objective, taken: dict[str, str]) -> None:
    """Without an arena it takes less memory; sleeping threads take least, but longer."""

    def peak(target: BenchmarkTarget) -> int:
        return (
            30_000_000 if not target.config.allow_spinning else 50_000_000 - 10_000_000 * (not target.config.cpu_arena)
        )

    models = Models({Recipe("basic"): 800, Recipe("ort"): 700})
    times = effects({"one thread": 0.9, "callers": 0.8, "sleep": 1.5, "ort": 1.2})
    machine = SimulatedMachine(times, seed=1, peak=peak)
    search = simulated(machine, monkeypatch, objective, models=models)
    search_all(search, is_concurrent=objective.goal == "throughput")
    assert {d: c.label for d, c in search.chosen.items()} == taken


def test_tail_of_the_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    def metrics(middle: float, tail: float) -> ModelMetrics:
        rounds, tails = ((middle,) * 3,) * 3, (tail, tail * 1.01, tail * 0.99)
        return ModelMetrics(latencies={0: Latency(0, 9, middle, middle, middle, tail, tail, rounds, tails)})

    a, b = metrics(1.0, 2.0), metrics(0.5, 4.0)
    middle, tail = Objective().time_ratio(a, b), Objective("latency", "p99").time_ratio(a, b)
    assert middle is not None
    assert tail is not None
    assert (middle.ratio, tail.ratio) == (pytest.approx(2.0), pytest.approx(0.5))
    assert combined_ratio(a, ModelMetrics()) is None
    assert peak_ratio(a, b) is None


def test_promising_choice_is_raced_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine five sets of processes are too few for a difference of a third, and nine more decide."""
    found: list[bool] = []
    for seed in range(10):
        machine = SimulatedMachine(effects({"ort": 0.65}), seed=seed, spread=0.12)
        search = simulated(machine, monkeypatch)
        search.decide("pipelines", pipeline_choices(["ort"], []))
        race: Any = search.race
        assert search.chosen or max(r.sets for r in race.results) in {RUNGS[-1].sets, LAST.sets}
        found.append(bool(search.chosen))
    assert sum(found) >= 6


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(effects({"one thread": 0.7}))
    search = simulated(machine, monkeypatch, limits=Limits(2, 1e9))
    search_all(search)
    raced = [t.choice for t in search.trials if t.raced is not None]
    assert raced == ["pipeline: basic", "pipeline: ort"]
    assert {t.outcome for t in search.trials[2:]} == {LIMITED}
    assert search.chosen == {}
    found = simulated(SimulatedMachine(effects({"ort": 0.8})), monkeypatch, limits=Limits(2, 1e9))
    search_all(found)
    assert {c.label for c in found.chosen.values()} == {"ort"}  # what seemed best was raced once more
    nothing = simulated(machine, monkeypatch, limits=Limits(100, -1.0))
    races = len(machine.races)
    search_all(nothing)
    assert ({t.outcome for t in nothing.trials}, len(machine.races)) == ({LIMITED}, races)


def test_models_that_fail_are_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(target: BenchmarkTarget) -> float | str:
        return "onnxruntime crashed" if target.config.parallel else 1e-3

    models = Models(failing=frozenset({Recipe("ort")}))
    search = search_all(simulated(SimulatedMachine(seconds), monkeypatch, models=models))
    outcomes = {t.choice: t.outcome for t in search.trials}
    assert outcomes["pipeline: ort"] == "invalid: ort fails"
    assert outcomes["execution: parallel, 2 inter-op threads"] == "invalid: onnxruntime crashed"
    assert search.chosen == {}


def test_interrupted_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = effects({"ort": 0.8, "one thread": 0.7, "no arena": 0.9})
    whole = SimulatedMachine(true)
    expected = search_all(simulated(whole, monkeypatch))

    class Interrupted(SimulatedMachine):
        def run_benchmark(self, *arguments: Any) -> list[ModelMetrics]:
            if len(self.races) == 5:
                raise KeyboardInterrupt
            return super().run_benchmark(*arguments)

    first = Interrupted(true)
    path = tmp_path / "journal.jsonl"
    with pytest.raises(KeyboardInterrupt):
        search_all(simulated(first, monkeypatch, journal=Journal(path, "c")))
    path.write_text(path.read_text() + '["c race 5 cut')  # killed as it wrote
    second = SimulatedMachine(true)
    second.races = list(first.races)  # the seeds of races go on
    found = search_all(simulated(second, monkeypatch, journal=Journal(path, "c")))
    assert found.trials == expected.trials
    assert found.chosen == expected.chosen
    assert len(second.races) == len(whole.races)
    other = SimulatedMachine(true)
    search_all(simulated(other, monkeypatch, journal=Journal(path, "of another model")))
    assert len(other.races) == len(whole.races)


# Interference: the machine is simulated, as a real load would decide differently each time.


@pytest.mark.parametrize("seed", range(12))
def test_busy_machine_has_no_false_winner(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """All choices take the same time, and processes differ by a third; a race at the end decides as `tune` does."""
    machine = SimulatedMachine(effects({}), seed=seed, spread=BUSY)
    search = search_all(simulated(machine, monkeypatch))
    search.ablate()
    race: Any = search.race
    last = race([search.start, search.incumbent], RUNGS[-1])
    is_winner = bool(search.chosen) and last.raced[1].ratio.high < 1
    assert not is_winner
    controlled = [r for r in race.results if r.control is not None]
    assert controlled
    assert any(r.noise > 1.1 for r in controlled)
    assert all(r.noise == 1.0 for r in race.results if r.sets < 3)


def test_quiet_machine_is_not_called_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    noises: list[float] = []
    for seed in range(8):
        search = search_all(simulated(SimulatedMachine(effects({}), seed=seed), monkeypatch))
        race: Any = search.race
        noises += [r.noise for r in race.results if r.control is not None]
        assert search.chosen == {}
    assert sum(n > 1 for n in noises) <= len(noises) / 8  # one in twenty by the intervals alone
    assert max(noises) < 1.1


def test_intervals_are_wider_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    widths: dict[float, float] = {}
    for spread in (QUIET, BUSY):
        machine = SimulatedMachine(effects({"one thread": 0.5}), spread=spread, seed=1)
        search = simulated(machine, monkeypatch)
        race: Any = search.race
        faster = structs.replace(Configuration(), session=structs.replace(DEFAULT_SESSION, intra_op_threads=1))
        result = race([search.start, faster], RUNGS[-1])
        ratio = result.raced[1].ratio
        assert ratio.low < 0.5 < ratio.high or spread == QUIET
        assert (result.noise > 1) is (spread == BUSY)
        widths[spread] = ratio.high / ratio.low
    assert log(widths[BUSY]) > 20 * log(widths[QUIET])


def test_noise_and_widening() -> None:
    assert noise(RatioInterval(1.0, 0.98, 1.02), 5) == 1.0
    assert noise(RatioInterval(1.03, 1.01, 1.05), 5) == 1.05  # it differs from itself
    assert noise(RatioInterval(1.0, 0.8, 1.25), 5) == 1.25
    assert noise(RatioInterval(1.0, 0.5, 1.02), 5) == 2.0
    assert noise(RatioInterval(1.0, 0.5, 2.0), 2) == 1.0  # of two sets it says nothing
    assert noise(None, 5) == 1.0
    wide = widened(RatioInterval(0.9, 0.8, 0.95), 1.25)
    assert (wide.ratio, wide.low, wide.high) == (0.9, pytest.approx(0.64), pytest.approx(1.1875))
    assert widened(RatioInterval(0.5, 0.5, 0.5), 2.0) == RatioInterval(0.5, 0.5, 0.5)


def _burn(seconds: float) -> None:
    end = monotonic() + seconds
    while monotonic() < end:
        pass


@pytest.mark.slow
def test_real_load(model: Path) -> None:
    """Processes that compute beside the search: the result is the original, or better even so."""
    spawn = multiprocessing.get_context("spawn")
    burners = [spawn.Process(target=_burn, args=(600.0,), daemon=True) for _ in range(psutil.cpu_count() or 1)]
    for burner in burners:
        burner.start()
    try:
        report = tune(model, pipeline=["none"], time=20, trials=3, min_time=0.1).report
    finally:
        for burner in burners:
            burner.terminate()
    assert report.noise.races > 0
    if not report.is_original:
        assert report.ratio is not None
        assert report.ratio.high < 1
    if report.noise.busy:
        assert str(report.noise).startswith("the machine is busy: in ")


# The whole of it, with simulated times: those of a model are by the number of its nodes.


def by_nodes(factors: Mapping[str, float], nodes: Mapping[int, float] | None = None) -> Any:
    """The time of a target: its nodes, or the seconds for so many, times the factors of its session."""
    of_session = effects(factors)

    def seconds(target: BenchmarkTarget) -> float:
        count = len(op_types(onnx.load(target.model)))
        return (nodes or {}).get(count, count) * of_session(target)

    return seconds


def tuned(model: Path, machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    monkeypatch.setattr(benchmark, "run_benchmark", machine.run_benchmark)
    usual = {"verify": "quick", "threads": 2, "ep": (), "engine": (), "trials": MODELS_AND_SESSIONS}
    return tune(model, **{**usual, **options})


def test_result_and_its_files(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress: list[str] = []
    machine = SimulatedMachine(by_nodes({"one thread": 0.7, "no arena": 0.8}))
    result = tuned(
        model, machine, monkeypatch, output=tmp_path / "t.onnx", json=tmp_path / "r.json",
        html=tmp_path / "p.html", dim={"N": [1, 8]}, progress=progress.append, trials=200,
    )  # fmt: skip
    report = result.report
    assert op_types(onnx.load(tmp_path / "t.onnx")) == ["Relu", "Mul"] == op_types(result.model)
    session = report.configuration.session
    assert (session.intra_op_threads, session.cpu_arena, session.parallel) == (1, False, False)
    assert report.ratio.ratio == pytest.approx(2 / 4 * 0.7 * 0.8, rel=0.02)
    assert report.verdict.failure is None
    assert (report.sizes, report.noise.busy) == (["N=1", "N=8"], 0)
    assert {d.decision: d.is_kept for d in report.decisions} == {
        "pipeline": True, "intra-op threads": True, "cpu arena": True,
    }  # fmt: skip
    assert {t.stage for t in report.trials} >= {"pipelines", "sessions", "opsets", "rules"}
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["result"]["ratio"]["high"] < 0.3
    assert data["configuration"]["session"]["intra_op_threads"] == 1
    page = (tmp_path / "p.html").read_text()
    assert all(text in page for text in ("Effect of each decision", "Peak memory", "no arena", "taken"))
    assert any("round 1, racing" in text and "of the original's p50 latency by pipeline" in text for text in progress)
    last = machine.races[-1]
    assert [len(op_types(onnx.load(t.model))) if t.model.exists() else 0 for t in last[:1]] in ([4], [0])
    assert [t.config for t in (last[0], last[-1])] == [SESSION_OF_TWO] * 2  # the original, against itself
    assert session in {t.config for t in last[1:-1]}


SESSION_OF_TWO = structs.replace(DEFAULT_SESSION, intra_op_threads=2)


def test_script_makes_the_session(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(by_nodes({"one thread": 0.7, "parallel": 0.8, "extended": 0.9, "no arena": 0.9}))
    folder = tmp_path / "scripts"
    folder.mkdir()
    tuned(model, machine, monkeypatch, output=tmp_path / "t'.onnx", script=folder / "s.py")
    text = (folder / "s.py").read_text()
    made: dict[str, Any] = {"__file__": str(folder / "s.py")}
    exec(compile(text, "s.py", "exec"), made)
    options = made["session"].get_session_options()
    assert (options.intra_op_num_threads, options.enable_cpu_mem_arena) == (1, False)
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    assert options.execution_mode == ort.ExecutionMode.ORT_PARALLEL
    x = np.array([[-1, 2, 3, -4]], np.float32)
    (expected,) = ort.InferenceSession(model).run(None, {"x": x})
    assert np.array_equal(made["session"].run(None, {"x": x})[0], expected)
    assert len(text.splitlines()) <= 15


def test_choice_that_is_slower_in_the_last_race_is_left_out(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine changes its mind about one thread before the last race: another finalist is taken."""

    class Fickle(SimulatedMachine):
        def run_benchmark(self, *arguments: Any) -> list[ModelMetrics]:
            if arguments[2].process_sets == LAST.sets:
                self.time = by_nodes({"one thread": 9.0})
            return super().run_benchmark(*arguments)

    machine = Fickle(by_nodes({"one thread": 0.7}))
    report = tuned(model, machine, monkeypatch, output=tmp_path / "t.onnx", pipeline=["basic"]).report
    assert [n for n in report.notes if n.startswith("skipped")] == [
        "skipped: basic, 1 intra-op thread: it was not significantly better than the original in the final race"
    ]
    assert report.configuration.recipe.pipeline == "basic"
    assert report.configuration.session == SESSION_OF_TWO
    kept = {d.decision: d.is_kept for d in report.decisions}
    assert kept == {"pipeline": True, "intra-op threads": False}


TOO_SHORT = "the original and the defaults of onnxruntime are kept: the time was too short"


def test_last_race_that_is_too_short_decides_nothing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two sets of processes before the time limit, the original is kept, and the exit code says so."""

    class Late(SimulatedMachine):
        def run_benchmark(self, targets: Any, feeds: Any, config: Any, *rest: Any) -> list[ModelMetrics]:
            sets = 2 if config.process_sets == LAST.sets else config.process_sets
            return super().run_benchmark(targets, feeds, structs.replace(config, process_sets=sets), *rest)

    machine = Late(by_nodes({"one thread": 0.7}))
    report = tuned(model, machine, monkeypatch).report
    assert (report.is_original, report.is_undecided) == (True, True)
    assert summary_lines(report) == [f"{TOO_SHORT} for the final race; raise --time"]
    assert [d.is_kept for d in report.decisions] == [False] * len(report.decisions)
    result = CliRunner().invoke(app, ["tune", str(model), "--verify", "quick", "--engine", "onnxruntime"])
    assert result.exit_code == 4, result.output
    assert TOO_SHORT in result.stdout


def test_race_ends_before_a_set_of_processes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The original has a figure of a search, but none of the last race."""

    class Ended(SimulatedMachine):
        def run_benchmark(self, *arguments: Any) -> list[ModelMetrics]:
            found = super().run_benchmark(*arguments)
            return [ModelMetrics() for _ in found] if arguments[2].process_sets == LAST.sets else found

    report = tuned(model, Ended(by_nodes({"one thread": 0.7})), monkeypatch).report
    assert summary_lines(report) == [f"{TOO_SHORT} for the final race; raise --time"]
    assert [row[0] for row in comparison_rows(report)] == ["disk"]
    assert page_html(describe(report))


def test_verification_that_is_late_keeps_the_original(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passwright.app.tune.outcome.MOST_LATE", 0.0)
    report = tuned(model, SimulatedMachine(by_nodes({"one thread": 0.7})), monkeypatch).report
    assert summary_lines(report) == [f"{TOO_SHORT} to verify the best choice; raise --time"]
    assert report.verdict is None
    assert repr(report).endswith("the time was too short to verify the best choice; raise time>")


def test_models_are_made_in_time(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a search ends as it makes a model: the choice is not measured, which is no failure of it."""
    search = simulated(SimulatedMachine(effects({})), monkeypatch)
    source = model_source(model, inline=True)
    search.race.models = TunedModels(source, model, model.parent, lambda *_: ("", ""))
    search.limits = Limits(1000, 0.0)
    with pytest.raises(TimeLimitError):
        search.identity(configured(pipeline_choices(["basic"], []), Configuration()))
    assert finalists(search, ["basic", "ort"]) == [{}, {ONE_THREAD.decision: ONE_THREAD}]


def test_nothing_better_keeps_the_original(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(lambda _: 1.0)
    result = tuned(model, machine, monkeypatch, output=tmp_path / "t.onnx")
    assert result.report.is_original
    assert onnx.load(tmp_path / "t.onnx") == onnx.load(model)
    settings = json.loads((tmp_path / "t_settings.json").read_text())
    assert (settings["run"]["pipeline"], settings["session"]["intra_op_threads"]) == ("none", 2)


def test_session_that_is_wrong_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that are too small to be normalized count: with zeros in their place it is faster, but wrong."""
    text = """g (float[4] x) => (float[4] y) <float[1] s = {1e-20}, float[1] t = {1e-20}, float[1] u = {1e20}>
    { a = Mul(x, s) b = Mul(a, t) c = Relu(b) d = Mul(c, u) y = Mul(d, u) }"""
    path = tmp_path / "m.onnx"
    onnx.save(load(text, 17), path)

    def seconds(target: BenchmarkTarget) -> float:
        one_thread = 0.9 if target.config.intra_op_threads == 1 else 1.0
        return one_thread * (0.5 if target.config.denormals_as_zero else 1.0)

    monkeypatch.setattr("passwright.app.tune.outcome.OracleProcess", OracleProcess)  # it may change its process
    report = tuned(path, SimulatedMachine(seconds), monkeypatch, pipeline=["none"]).report
    assert report.configuration.session == structs.replace(SESSION_OF_TWO, intra_op_threads=1)
    (note,) = [n for n in report.notes if n.startswith("skipped")]
    assert "denormals as zero" in note
    assert "in its session" in note
    assert report.verdict.failure is None


def test_original_that_does_not_run_is_an_error(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "run_benchmark", SimulatedMachine(lambda _: "a bad kernel").run_benchmark)
    result = CliRunner().invoke(app, ["tune", str(model), "-o", str(model.with_name("t.onnx")), "--verify", "quick"])
    assert (result.exit_code, result.stderr) == (4, "error: the original does not run in onnxruntime: a bad kernel\n")
    assert not model.with_name("t.onnx").exists()


def test_quantized_model_is_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheme is raced as any pipeline, and its loss is the budget of the search in `quantize`."""
    made: list[str] = []

    def quantize(_: Path, options: Any, __: float, ___: Any, scheme: str, path: Path) -> tuple[str, str]:
        made.append(f"{scheme} {options.budget}")
        if scheme == "weights8":
            raise PassesError("no candidate is within the budget, and faster or smaller")
        onnx.save(load("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }", 17), path)
        return "dynamic (per channel)", "top-1 0.98, the original's 0.99"

    monkeypatch.setattr("passwright.app.tune.tune._quantize", quantize)
    path = tmp_path / "m.onnx"
    onnx.save(load(TEXT, 17), path)
    machine = SimulatedMachine(by_nodes({"one thread": 0.7}))
    result = tuned(path, machine, monkeypatch, budget="1%", scheme="dynamic,weights8", output=tmp_path / "t.onnx")
    assert made == ["dynamic 1%", "weights8 1%"]
    assert result.report.configuration.recipe == Recipe(scheme="dynamic")
    assert result.report.verdict is None
    loss = "quantized within 1%; measured instead of verified: dynamic (per channel), top-1 0.98, the original's 0.99"
    assert result.report.notes.count(loss) == 1
    assert result.report.words[0] == "quantized, dynamic (per channel)"
    run = CliRunner().invoke(app, ["run", str(path), "--settings", str(tmp_path / "t_settings.json")])
    assert run.exit_code == 2
    assert "the model is quantized: `passes quantize --scheme dynamic` makes it" in run.stderr


def test_loss_of_a_quantized_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels of the handwritten digits decide, and both figures are in the notes and on the page."""
    trained = Path(__file__).parent.parent / "golden_models/trained"
    files = {"data": "digits_mlp_calibration.npz", "labelled": "digits_mlp_labelled.npz"}
    report = tuned(
        trained / "digits_mlp.onnx",
        SimulatedMachine(lambda _: 1.0),
        monkeypatch,
        **{option: trained / name for option, name in files.items()},
        goal="size", budget="1%", scheme="half-weights", pipeline=["none"],
    ).report  # fmt: skip
    assert report.configuration.recipe == Recipe(scheme="half-weights")
    assert report.result.bytes < 0.6 * report.original.bytes
    (note,) = (note for note in report.notes if note.startswith("quantized within 1%"))
    found = re.search(r"half-weights.*, top-1 ([\d.]+), the original's ([\d.]+), a loss of .*, on inputs", note)
    assert found is not None, note
    assert float(found[1]) >= 0.98 * float(found[2]) > 0.9
    assert "measured instead of verified" in page_html(describe(report))


# Engines and precisions.

INEXACT = Path(__file__).with_name("inexact_engine.py")
PLANTED = Path(__file__).with_name("planted_engine.py")


def by_precision(times: Mapping[str, float]) -> Any:
    """The time of a target in an engine, by its precision, and 1 in onnxruntime."""
    return lambda target: 1.0 if target.config.is_onnxruntime else times[target.config.precision]


@pytest.mark.parametrize(
    ("budget", "taken", "note"),
    [
        (None, "inexact_engine.py", None),
        (
            "1%",
            "inexact_engine.py:bf16",
            "inexact_engine.py:bf16 within 1%; measured instead of verified: SNR (dB) 60.0, on",
        ),
        ("0.000001%", "inexact_engine.py", None),
    ],
)
def test_engine_and_precision_within_the_budget(
    model: Path, monkeypatch: pytest.MonkeyPatch, budget: str | None, taken: str, note: str | None
) -> None:
    """Of f32, bf16 and f8, each faster than the one before, the last one within the budget; f32 is verified."""
    machine = SimulatedMachine(by_precision({"f32": 0.8, "bf16": 0.6, "f8": 0.4}))
    options = {"budget": budget, "scheme": "half-weights", "metric": "snr"} if budget else {}
    output = model.with_name("t.onnx")
    report = tuned(
        model, machine, monkeypatch, engine=[str(INEXACT)], pipeline=["none"], output=output, **options
    ).report
    assert report.configuration.session.engine_name == taken
    assert (report.verdict is None) is (note is not None)
    assert [n for n in report.notes if note and n.startswith(note)] == [
        n for n in report.notes if "instead of verified" in n
    ]
    outcomes = {t.choice: t.outcome for t in report.trials}
    if budget:
        assert outcomes["engine: inexact_engine.py:f8"].startswith(
            "invalid: over the budget in inexact_engine.py:f8: SNR (dB) 10.5"
        )
    else:
        assert not any("bf16" in choice for choice in outcomes)
    assert f"engine {taken}" in report.words
    made: dict[str, Any] = {"__file__": str(model.with_name("t_session.py"))}
    exec(compile(model.with_name("t_session.py").read_text(), "s.py", "exec"), made)
    assert made["session"].precision == report.configuration.session.precision


def test_wrong_engine_is_left_out(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(by_precision({"f32": 0.5}))
    report = tuned(model, machine, monkeypatch, engine=[str(PLANTED)], pipeline=["none"]).report
    assert report.is_original
    (note,) = [n for n in report.notes if n.startswith("skipped: engine planted_engine.py")]
    assert re.search(r"in planted_engine.py y: off by up to 16 .*, on ", note)


def test_next_best_of_the_same_race_replaces_a_wrong_one(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last_races: list[Sequence[BenchmarkTarget]] = []

    class Recorded(SimulatedMachine):
        def run_benchmark(self, *arguments: Any) -> list[ModelMetrics]:
            last_races.extend([arguments[0]] * (arguments[2].process_sets == LAST.sets))
            return super().run_benchmark(*arguments)

    def seconds(target: BenchmarkTarget) -> float:
        if not target.config.is_onnxruntime:
            return 0.5
        return 0.505 if target.config.intra_op_threads == 1 else 1.0

    report = tuned(model, Recorded(seconds), monkeypatch, engine=[str(PLANTED)], pipeline=["none"]).report
    assert report.configuration.session == structs.replace(SESSION_OF_TWO, intra_op_threads=1)
    assert [n for n in report.notes if n.startswith("skipped: engine planted_engine.py")]
    assert len(last_races) == 1


def test_engine_that_computes_in_another_precision(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without instructions for a precision, an engine computes in another one: that is no choice."""
    machine = SimulatedMachine(by_precision({"f32": 2.0, "bf16": 0.5}), precision=lambda _: "f32")
    options = {"budget": "1%", "scheme": "half-weights", "pipeline": ["none"]}
    report = tuned(model, machine, monkeypatch, engine=[f"{INEXACT}:bf16"], **options).report
    assert report.configuration.session.is_onnxruntime
    (trial,) = [t for t in report.trials if t.choice == "engine: inexact_engine.py:bf16"]
    assert trial.outcome == "invalid: inexact_engine.py computes in f32 instead of bf16"


def test_engines_to_try() -> None:
    assert engines_to_try((), is_lossy=True) == [EngineChoice()]
    assert not {e.name for e in engines_to_try(None, is_lossy=True)} & {"web", "webgpu"}
    assert engines_to_try(("onnxruntime",), is_lossy=False) == [EngineChoice()]
    names = [e.precision for e in engines_to_try((str(INEXACT),), is_lossy=True)]
    assert names == ["f32", "f32", "bf16", "f8"]
    assert [e.precision for e in engines_to_try((f"{INEXACT}:f8",), is_lossy=True)] == ["f32", "f8"]
    with pytest.raises(UsageError, match="f8 is lossy: set the allowed loss with --budget"):
        engines_to_try((f"{INEXACT}:f8",), is_lossy=False)


def test_settings_of_other_engines() -> None:
    """Settings of onnxruntime, and options of its providers, are not those of another engine."""
    engine = Choice(ENGINE, "openvino", session={"engine": "openvino", "precision": "f32", "provider_options": ()})
    choices = {str(c): c for c in session_choices(2, [], is_concurrent=False)}
    provider = Choice("provider", "x{a=b}", session={"provider": "XProvider", "provider_options": (("a", "b"),)})
    others = [choices["cpu arena: no arena"], provider, *optimizer_choices(["A"]), ONE_THREAD]
    expected = structs.replace(DEFAULT_SESSION, engine="openvino", intra_op_threads=1)
    for chosen in ([engine, *others], [*others, engine]):
        assert configured(chosen, Configuration()).session == expected
    streams = engine_session_choices(2, is_concurrent=True)[-1]
    assert (streams.label, streams.callers) == ("2 with streams", 2)
    assert configured([engine, streams], Configuration()).session.streams == 2
    assert configured([streams], Configuration()).session == DEFAULT_SESSION
    assert engine_choices([EngineChoice(), EngineChoice("openvino")], DEFAULT_SESSION) == [engine]
    back = engine_choices([EngineChoice()], expected)
    assert configured(back, Configuration(session=expected)).session == structs.replace(expected, engine="onnxruntime")


@needs_openvino
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_script_compiles_for_openvino(model: Path, precision: str) -> None:
    session = structs.replace(DEFAULT_SESSION, engine="openvino", precision=precision, intra_op_threads=1)
    text = session_script(Configuration(session=session), model.name, "a test")
    made: dict[str, Any] = {"__file__": str(model)}
    exec(compile(text, "s.py", "exec"), made)
    found = made["session"].get_property("INFERENCE_PRECISION_HINT").get_type_name()
    assert (found, made["session"].get_property("INFERENCE_NUM_THREADS")) == (precision, 1)
    x = np.array([[-1, 2, 3, -4]], np.float32)
    (expected,) = ort.InferenceSession(model).run(None, {"x": x})
    assert np.array_equal(made["session"]({"x": x})[0], expected)
    assert len(text.splitlines()) <= 12


# Choices and configurations.


def test_groups_name_passes_that_exist() -> None:
    of_pipelines = {p.name for p in (*BUILT_IN, *ORT.last)}
    assert {n for names in TRADING.values() for n in names} <= of_pipelines
    assert {n for names in OPTIONAL.values() for n in names} <= {p.name for p in OPTIONAL_PASSES} - of_pipelines
    assert BASIC.name == "basic"
    every = [n for names in (*TRADING.values(), *OPTIONAL.values()) for n in names]
    assert len(every) == len(set(every))


def test_configured() -> None:
    ort_choice, swish = pipeline_choices(["ort"], [])[0], Choice("rules: Swish", "on", enable=("fuse-swish",))
    off = optimizer_choices(["A", "B"])
    zero = Choice("denormals as zero", "on", session={"denormals_as_zero": True})
    found = configured([ort_choice, swish, *off, zero], Configuration())
    assert found.recipe == Recipe("ort", enable=("fuse-swish",))
    assert found.session.disabled_optimizers == ("A", "B")
    assert configured([swish, zero], Configuration()).recipe == Recipe()
    scheme = pipeline_choices([], ["dynamic"])[0]
    quantized = configured([scheme, swish, zero], Configuration())
    assert quantized == Configuration(Recipe(scheme="dynamic"))


def test_choices_of_machines() -> None:
    for cores in (1, 2, 6, 64):
        choices = session_choices(cores, installed_providers(), is_concurrent=True)
        names = [str(c) for c in choices]
        assert len(names) == len(set(names))
        threads = [c.session["intra_op_threads"] for c in choices if c.decision == "intra-op threads"]
        assert (min(threads), max(threads)) == (1, cores)
        assert any(c.decision == "block size" for c in choices) is (cores > 1)
    assert [c.label for c in opset_choices(14, 14, 23)] == ["17", "20", "23"]
    assert [c.label for c in opset_choices(14, 23, 23)] == ["14", "17", "20"]


def test_workloads(tmp_path: Path) -> None:
    source = model_source(load("g (float[N,S] x) => (float[N,S] y) { y = Relu(x) }", 17), inline=True)
    found, notes = make_workloads(source, None, {"N": [1, 8], "S": [3, 5]}, {}, 0)
    assert [(w.name, w.samples, w.feeds["x"].shape) for w in found] == [
        ("N=1,S=3", 1, (1, 3)), ("N=8,S=3", 8, (8, 3)), ("N=1,S=5", 1, (1, 5)), ("N=8,S=5", 8, (8, 5)),
    ]  # fmt: skip
    assert notes == []
    again = make_workloads(source, None, {"N": [1, 8], "S": [3, 5]}, {}, 0)[0]
    assert [w.digest for w in again] == [w.digest for w in found]
    assert len({w.digest for w in found}) == 4
    assert replace(found[0], feeds={"x": np.zeros((1, 3), np.float32)}).digest != found[0].digest
    texts = Workload("", 1, {"s": np.array(["a", "b"], object), "q": [np.ones(2)]})
    assert texts.digest != replace(texts, feeds={**texts.feeds, "q": [np.zeros(2)]}).digest
    x = np.ones((2, 7), np.float32)
    given = read_samples({"x": x}, input_specs(source.load()))
    assert [w.name for w in make_workloads(source, given, {}, {}, 0)[0]] == ["N=2,S=7"]
    assert [w.feeds["x"].shape for w in make_workloads(source, given, {"N": [3]}, {}, 0)[0]] == [(3, 7)]
    with pytest.raises(UsageError, match="given inputs have sizes of their own"):
        make_workloads(source, given, {"S": [3]}, {}, 0)
    with pytest.raises(UsageError, match="more than 16 combinations"):
        make_workloads(source, None, {"N": list(range(1, 9)), "S": [1, 2, 3]}, {}, 0)
    with pytest.raises(ModelError, match="no such symbol"):
        make_workloads(source, None, {"Q": [3]}, {}, 0)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--goal", "speed"], "--goal speed: choose from latency, throughput, memory, size"),
        (["--quantile", "p95"], "--quantile p95: choose from p50, p99"),
        (["--quantile", "p99", "--goal", "size"], "--quantile p99 is for --goal latency"),
        (["--pipeline", "basic,fast"], "--pipeline fast: choose from none, basic, ort"),
        (["--data", "x.npz"], "--data needs --budget"),
        (["--scheme", "static"], "--scheme needs --budget"),
        (["--budget", "1"], "--budget 1: not of the form 1% (relative) or 0.5pt (absolute)"),
        (["--budget", "1%", "--scheme", "tiny"], "--scheme tiny: choose from auto"),
        (["--dim", "N=0"], "--dim N=0: not of the form batch=1,8"),
        (["--dim", "N=1,x"], "--dim N=1,x: not of the form batch=1,8"),
        (["--dim", "N=1", "--dim", "N=2"], "--dim N: given twice"),
        (["--ep", "cuda"], "this onnxruntime has no execution provider cuda"),
        (["--settings", "m.onnx"], "the settings would overwrite"),
        (["--script", "t.onnx"], "cannot hold both the model and the script"),
    ],
)
def test_bad_options(model: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: str) -> None:
    monkeypatch.chdir(model.parent)
    machine = SimulatedMachine(lambda _: 1.0)
    monkeypatch.setattr(benchmark, "run_benchmark", machine.run_benchmark)
    result = CliRunner().invoke(app, ["tune", "m.onnx", "-o", "t.onnx", "--verify", "quick", *arguments])
    assert result.exit_code in {1, 2}
    assert result.stderr.startswith("error: ")
    assert error in result.stderr
    assert [p.name for p in model.parent.iterdir()] == ["m.onnx"]


def test_too_many_threads(model: Path) -> None:
    with pytest.raises(UsageError, match="threads 2000: it must be 1024 or less"):
        tune(model, threads=2000)


def test_journal_of_another_command(model: Path) -> None:
    journal = model.with_name("j")
    journal.write_text("1 2 3\n")
    result = CliRunner().invoke(
        app, ["tune", str(model), "-o", str(model.with_name("t.onnx")), "--journal", str(journal)]
    )
    assert (result.exit_code, result.stderr) == (
        1, f"error: {journal} is not a journal of `passes tune`; name another file\n",
    )  # fmt: skip


def test_sizes() -> None:
    assert parse_dim_sizes(["N=8,1,8", "a=b=3"]) == {"N": (1, 8), "a=b": (3,)}


def test_output_of_the_command(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    monkeypatch.setattr(benchmark, "run_benchmark", SimulatedMachine(by_nodes({"one thread": 0.7})).run_benchmark)
    options = ["-o", "t.onnx", "--verify", "quick", "--trials", "18", "--engine", "onnxruntime"]
    result = CliRunner().invoke(app, ["tune", "m.onnx", *options], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert re.search(r"0\.35 \(0\.3\d-0\.3\d\) of the original's p50 latency: pipeline basic, 1 intra-op thread", text)
    assert re.search(r"intra-op threads +│ 1 +│ +0\.70 \(0\.\d\d-0\.\d\d\)", text)
    assert text.endswith("written to t.onnx, t_settings.json, t_session.py\n")
    assert {p.name for p in model.parent.iterdir()} == {"m.onnx", "t.onnx", "t_settings.json", "t_session.py"}
    quiet = CliRunner().invoke(app, ["tune", "m.onnx", "-q", *options])
    assert (quiet.exit_code, quiet.output) == (0, "")


def test_command_says_that_the_machine_is_busy(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(lambda _: 1.0, spread=BUSY)
    monkeypatch.setattr(benchmark, "run_benchmark", machine.run_benchmark)
    written = [str(tmp_path / name) for name in ("t.onnx", "r.json", "p.html")]
    reports = ["-o", written[0], "--json", written[1], "--html", written[2]]
    result = CliRunner().invoke(
        app, ["tune", str(model), *reports, "--verify", "quick", "--trials", "18", "--engine", "onnxruntime"]
    )
    assert result.exit_code == 0, result.output
    assert re.search(r"note: the machine is busy: in \d+ of \d+ races a model differed from itself", result.stdout)
    assert "the original and the defaults of onnxruntime are kept" in result.stdout
    found = json.loads(Path(written[1]).read_text())["noise"]
    assert found["races"] >= found["busy"] > 0
    assert found["factor"] > 1.1
    assert "busy machine" in Path(written[2]).read_text()
    assert op_types(onnx.load(written[0])) == op_types(onnx.load(model))


def test_optimizers_in_a_log() -> None:
    log = [
        "[V:onnxruntime:, mgr.cc:55] Applying graph transformer Level1_RuleBasedTransformer on step 1.",
        "[I:onnxruntime:, graph_transformer.cc:15 Apply] GraphTransformer ConstantSharing modified: 1 with status: OK",
        "[I:onnxruntime:, graph_transformer.cc:15 Apply] GraphTransformer ReshapeFusion modified: 0 with status: OK",
        "[I:onnxruntime:, graph_transformer.cc:15 Apply] GraphTransformer ConstantSharing modified: 1 with status: OK",
        "[I:onnxruntime:, graph_transformer.cc:15 Apply] GraphTransformer MemcpyTransformer modified: 1",
    ]
    assert logged_optimizers(log, MODIFIED) == ["ConstantSharing"]


KEPT = "the original and the defaults of onnxruntime are kept"


def test_a_search_without_races_says_so() -> None:
    found = tuning(("model.onnx", "a", "b"))
    kept = replace(found, configuration=found.start, trials=[RaceTrial("sessions", "one thread", LIMITED)])
    assert (found.is_undecided, kept.is_undecided) == (False, True)
    assert summary_lines(kept) == [f"{KEPT}: the search ended before a choice was raced"]
    assert next(tune_tiles(kept)).note == "the time was too short"
    raced = replace(found, configuration=found.start)
    assert summary_lines(raced) == [f"{KEPT}: of 2 choices, none was significantly better"]
    assert not raced.is_undecided


@cases(
    ("quantile", "sizes", "names"),
    {
        "one size": ("p50", ["batch=1"], ["p50, batch=1"]),
        "tails": ("p99", ["batch=1"], ["p50, batch=1", "p99, batch=1"]),
        "sizes": ("p50", ["batch=1", "batch=8"], ["p50, batch=1", "p50, batch=8", "p50, mean of all"]),
    },
)
def test_no_time_is_shown_without_its_interval(quantile: Any, sizes: list[str], names: list[str]) -> None:
    found = tuning(("model.onnx", "a", "b"))
    both = [structs.replace(e, seconds=dict.fromkeys(sizes, 1e-3), tails=dict.fromkeys(sizes, 2e-3))
            for e in (found.original, found.result)]  # fmt: skip
    shown = replace(found, objective=Objective("latency", quantile), original=both[0], result=both[1], sizes=sizes)
    rows = [row for row in comparison_rows(shown) if row[0].startswith("p")]
    assert [row[0] for row in rows] == names
    assert [row[3] for row in rows if row[3]] == ["0.80 (0.75-0.86)"] * (2 if quantile == "p99" else 1)
    assert not any(row[3] for row in comparison_rows(replace(shown, configuration=shown.start)) if row[0][0] == "p")
