"""Races of results against the original, and the fallbacks of pipelines."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import sample_reports as samples
from commands import invoke
from passwright.app.cli.entry import app
from passwright.app.measure import benchmark
from passwright.app.measure.benchmark import BenchmarkTarget
from passwright.app.measure.metrics import Latency, ModelMetrics
from passwright.app.registry.resolved_pipeline import resolve_pipeline
from passwright.app.report.visualization import Visualization
from passwright.core import ROUNDING, Pass, Pipeline, Plugin, RewriteBuilder, RulePass, Value, rule
from passwright.core.errors import UsageError
from passwright.core.run.phase_timer import PhaseTimer
from passwright.core.run.pipeline import selectable_names
from passwright.core.run.report import PipelineRace, SpeedCheck
from passwright.core.support.confidence_intervals import RatioInterval
from passwright.passes.pipelines import PIPELINES
from passwright.testing.rewriting import load, op_types
from rewriting import cases, each
from tiers import slow_unless
from typer.testing import CliRunner

from passwright import optimize

TEXT = "g (float[N,256] x) => (float[N,256] y) { a = Identity(x) y = Elu(a) }"
PLUGIN = '''
import numpy as np
from passwright.core import ROUNDING, rule

@rule(lambda g, x: g.Elu(x), contract=ROUNDING)
def elu_beside_products(g, x):
    """Elu(x) => Celu(x) or an equal Selu(x), chosen after a dozen products"""
    m = g.Tanh(x)
    for _ in range(12):
        m = g.Tanh(g.MatMul(m, g.const(np.full((256, 256), 0.01, np.float32))))
    return g.Where(g.LessOrEqual(m, g.const(np.float32(2))), g.Celu(x), g.Selu(x, alpha=1.0, gamma=1.0))
'''
pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
NAMESPACE: dict[str, Any] = {}
exec(PLUGIN, NAMESPACE)  # the same rule in a file and here
SLOW = RulePass("slow-down", (NAMESPACE["elu_beside_products"],))


@rule(lambda g, x: g.Elu(x), contract=ROUNDING)
def elu_by_celu(g: RewriteBuilder, x: Value) -> Value:
    """Elu(x) => Celu(x)"""
    return g.Celu(x)


CELU = RulePass("celu", (elu_by_celu,))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(load(TEXT, 18), path)
    return path


def metrics(seconds: float) -> ModelMetrics:
    rounds = tuple((seconds * (1 + n / 1000),) * 3 for n in range(3))
    return ModelMetrics(latencies={1: Latency(1, 9, seconds, seconds, seconds, seconds, seconds, rounds)}, threads=2)


Measured = list[tuple[list[str], Mapping[int, Mapping[str, Any]], float]]


def measured_by(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[list[str]], float | str] | None = None) -> Measured:
    """Replace measurements: by default the time is the number of nodes. Returns the results that were measured."""
    seen: Measured = []

    def run_benchmark(
        targets: Sequence[BenchmarkTarget], feeds: Mapping[int, Mapping[str, Any]], config: Any, *_: Any
    ) -> list[ModelMetrics]:
        ops = [op_types(onnx.load(t.model)) for t in targets]
        seen.append((ops[1], feeds, config.min_time))
        found = [seconds(o) if seconds is not None else float(len(o)) for o in ops]
        assert {t.config.intra_op_threads for t in targets} <= {0, 1, 2}
        assert {t.config.optimization_level for t in targets} == {"ENABLE_ALL"}
        return [ModelMetrics(failure=f) if isinstance(f, str) else metrics(f) for f in found]

    monkeypatch.setattr(benchmark, "run_benchmark", run_benchmark)
    return seen


@pytest.mark.parametrize("is_real", slow_unless({False}, [False, True]), ids=["simulated", "measured"])
def test_slow_plugin_loses_to_the_original(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_real: bool
) -> None:
    """The plugin makes a model slower but right."""
    if is_real:
        monkeypatch.setattr(benchmark, "BenchmarkConfig", partial(benchmark.BenchmarkConfig, process_sets=3))
    else:
        measured_by(monkeypatch)
    (tmp_path / "slow.py").write_text(PLUGIN)
    out = tmp_path / "out.onnx"
    slow = ["run", str(model), "-o", str(out), "--plugin", str(tmp_path / "slow.py"), "--threads", "1"]
    result = invoke(*slow, "--check-speed", "--min-time", "0.3", "--json", tmp_path / "r.json")
    assert onnx.load(out).graph == onnx.load(model).graph
    report = json.loads((tmp_path / "r.json").read_text())
    (race,) = report["speed"]["races"]
    assert (report["pipeline"], race["pipeline"], race["is_lost"]) == ("none", "basic", True)
    assert race["ratio"]["ratio"] >= race["ratio"]["low"] > 1.0
    assert report["verification"]["failure"] is None
    assert "discarded the result of basic: with ORT ALL" in result.stderr
    assert "speed: the original was kept instead of the result of basic" in result.stdout
    assert min(report["seconds"]["measuring"], report["seconds"]["comparing"]) > 0


def test_race_on_a_busy_machine_decides_nothing(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_benchmark(targets: Sequence[BenchmarkTarget], *_: Any) -> list[ModelMetrics]:
        found = [metrics(float(n + 1)) for n in range(len(targets))]
        disturbed = [{b: replace(x, waited=0.6, is_disturbed=True) for b, x in m.latencies.items()} for m in found]
        return [replace(m, latencies=latencies) for m, latencies in zip(found, disturbed, strict=True)]

    monkeypatch.setattr(benchmark, "run_benchmark", run_benchmark)
    arguments = ["run", str(model), "-o", str(tmp_path / "o.onnx"), "--json", str(tmp_path / "r.json"), "--check-speed"]
    result = invoke(*arguments)
    assert op_types(onnx.load(tmp_path / "o.onnx")) == ["Elu"]
    assert (
        "speed: with ORT ALL inconclusive (0.95-2.00) compared with the original's time, with 2 threads"
        in result.stdout
    )
    assert "speed: the machine is busy: the processes waited 60% of the time for a core; measure" in result.stdout
    (race,) = json.loads((tmp_path / "r.json").read_text())["speed"]["races"]
    assert not race["is_lost"]
    assert race["ratio"]["inconclusive"].startswith("the machine is busy")


@cases(
    ("pipeline", "lost", "taken", "ops"),
    {
        "fallback": (Pipeline("p", (SLOW,), fallback="basic"), ["p"], "basic", ["Elu"]),
        "original": (Pipeline("p", (SLOW,)), ["p"], "none", ["Identity", "Elu"]),
        "no slower": (Pipeline("p", (CELU,), fallback="basic"), [], "p", ["Identity", "Celu"]),
        "faster": ("basic", [], "basic", ["Elu"]),
    },
)
def test_results_that_are_taken(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    pipeline: str | Pass, lost: list[str], taken: str, ops: list[str],
) -> None:  # fmt: skip
    seen = measured_by(monkeypatch)
    out, page = tmp_path / "out.onnx", tmp_path / "page.html"
    result = optimize(model, pipeline, output=out, check_speed=True, html=page, map=tmp_path / "names.json")
    assert op_types(onnx.load(out)) == op_types(result.model) == ops
    speed = result.report.speed
    assert speed is not None
    assert [race.pipeline for race in speed.lost] == lost
    assert (result.report.pipeline, speed.threads) == (taken, 2)
    assert sum(result.report.after.ops.values()) == len(ops)
    assert len(seen) == len(speed.races)
    assert result.report.verification is not None
    assert result.report.verification.failure is None
    assert ("speed: the original was kept instead of" in page.read_text()) is (taken == "none")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_fallbacks_follow_each_other(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured_by(monkeypatch, lambda ops: 1.0 if "Identity" in ops and "Elu" in ops else 2.0 if "Elu" in ops else 3.0)
    plugin = Plugin(
        pipelines={
            "first": Pipeline("first", (SLOW,), fallback="second"),
            "second": Pipeline("s", (CELU,), fallback="basic"),
        }
    )
    result = optimize(model, "first", [plugin], check_speed=True)
    speed = result.report.speed
    assert speed is not None
    assert [(r.pipeline, round(r.ratio.ratio, 3)) for r in speed.races if r.ratio is not None] == [
        ("first", 3.0), ("second", 3.0), ("basic", 2.0),
    ]  # fmt: skip
    assert result.report.pipeline == "none"
    assert result.model.graph == onnx.load(model).graph


@cases(
    ("times", "raced", "taken"),
    {
        "ort": ([1.0, 0.5], ["ort"], "ort"),
        "basic": ([1.0, 1.5, 1.0, 0.9], ["ort", "basic"], "basic"),
        "original": ([1.0, 1.5, 1.0, 1.4], ["ort", "basic"], "none"),
    },
)
def test_ort_falls_back_to_basic(
    model: Path, monkeypatch: pytest.MonkeyPatch, times: list[float], raced: list[str], taken: str
) -> None:
    left = iter(times)
    measured_by(monkeypatch, lambda _: next(left))
    report = optimize(model, "ort", check_speed=True).report
    assert report.speed is not None
    assert ([race.pipeline for race in report.speed.races], report.pipeline) == (raced, taken)
    assert list(left) == []


def test_nothing_is_written_before_the_race(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.onnx"
    out.write_text("as before")

    def check(_: list[str]) -> float:
        assert out.read_text() == "as before"
        raise KeyboardInterrupt

    measured_by(monkeypatch, check)
    with pytest.raises(KeyboardInterrupt):
        optimize(model, output=out, check_speed=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx", "out.onnx"]
    assert out.read_text() == "as before"


def test_result_that_onnxruntime_refuses_is_left_out(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured_by(monkeypatch, lambda ops: "a bad kernel" if "Celu" in ops else 1.0)
    report = optimize(model, Pipeline("p", (CELU,)), check_speed=True).report
    assert report.speed is not None
    (race,) = report.speed.races
    assert (race.is_lost, race.failure) == (True, "it does not run under ORT ALL: a bad kernel")
    assert report.pipeline == "none"


def test_result_is_taken_if_the_original_cannot_be_measured(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured_by(monkeypatch, lambda ops: 1.0 if "Celu" in ops else "a bad kernel")
    result = invoke("run", model, "--check-speed")
    assert "speed: not measured: the original does not run under ORT ALL: a bad kernel" in result.stdout


def test_empty_pipeline_is_not_raced(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = measured_by(monkeypatch)
    result = CliRunner().invoke(app, ["run", str(model), "--check-speed", "--pipeline", "none"])
    assert "speed: not measured: the pipeline has no passes" in result.stdout
    assert seen == []


def test_given_inputs_threads_and_time_are_used(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = measured_by(monkeypatch)
    x = np.random.default_rng(0).normal(size=(5, 256)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    report = optimize(model, inputs=tmp_path / "in.npz", check_speed=True, threads=2, min_time=0.5).report
    ((_, feeds, min_time),) = seen
    assert (list(feeds), min_time) == ([5], 0.5)
    assert np.array_equal(feeds[5]["x"], x)
    assert report.speed is not None
    assert not report.speed.lost


def test_transformed_and_unverified_models_are_raced(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = measured_by(monkeypatch)
    result = optimize(model, Pipeline("p", (SLOW,)), shape={"x": [7, 256]}, verify=False, check_speed=True)
    assert [np.shape(feeds[7]["x"]) for _, feeds, _ in seen] == [(7, 256)]
    assert (result.report.pipeline, result.report.verification) == ("none", None)
    assert result.model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 7


def test_original_keeps_its_value_info(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = onnx.load(model)
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, ["N", 256]))
    measured_by(monkeypatch)
    result = optimize(proto, Pipeline("p", (SLOW,)), check_speed=True, value_info="strip")
    assert result.model.graph.value_info == proto.graph.value_info


@pytest.mark.parametrize("option", ["--threads", "--min-time"])
def test_options_of_the_race_need_it(model: Path, option: str) -> None:
    result = CliRunner().invoke(app, ["run", str(model), option, "1"])
    assert (result.exit_code, result.stderr) == (2, "error: --threads and --min-time need --check-speed\n")


def chain(pipeline: str | Pass, **options: Any) -> list[list[str]]:
    """The passes of the pipeline and of its fallbacks; `basic` in short."""
    choice = resolve_pipeline(pipeline, **options)
    basic = [q.name for q in PIPELINES["basic"].passes]
    named = [[q.name for q in p.passes] for p in (choice.pipeline, *choice.fallbacks)]
    return [["basic", *names[len(basic) :]] if names[: len(basic)] == basic else names for names in named]


FAST = Plugin(
    pipelines={"fast": Pipeline("fast", (CELU,), fallback="basic"), "old": Pipeline("old", (SLOW,), fallback="basic")}
)


FALLBACKS: dict[str, tuple[str, dict[str, Any], list[list[str]]]] = {
    "named": ("fast", {}, [["celu"], ["basic"]]),
    "none": ("basic", {}, [["basic"]]),
    "with enabled passes": ("fast", {"enable": ["debloat"]}, [["celu", "debloat"], ["basic", "debloat"]]),
    "nothing is left of the fallback": ("fast", {"only": ["celu"]}, [["celu"]]),
    "only": ("fast", {"enable": ["debloat"], "only": ["celu", "debloat"]}, [["celu", "debloat"], ["debloat"]]),
    "skip": ("fast", {"skip": ["elu_by_celu"]}, [["celu"], ["basic"]]),
    "several": ("fast,old", {}, [["fast", "old"], ["basic"]]),
}


@each(("pipeline", "options", "expected"), FALLBACKS)
def test_fallbacks_of_pipelines(pipeline: str, options: dict[str, Any], expected: list[list[str]]) -> None:
    assert chain(pipeline, plugin=[FAST], **options) == expected


def test_text_of_several_falls_back_to_several() -> None:
    choice = resolve_pipeline("fast,merge-clamps", [FAST])
    assert [p.name for p in (choice.pipeline, *choice.fallbacks)] == ["fast,merge-clamps", "basic,merge-clamps"]


TOML = """
[ours]
passes = ["fast", "merge-clamps"]
fallback = "careful"

[careful]
passes = ["basic"]
skip = ["merge-clamps"]
fallback = "basic"

[lost]
passes = ["basic"]
fallback = "carefull"
"""


def test_fallbacks_in_files(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(TOML)
    choice = resolve_pipeline(f"{tmp_path / 'p.toml'}:ours", [FAST])
    assert [p.name for p in (choice.pipeline, *choice.fallbacks)] == ["ours", "careful", "basic"]
    (careful, basic) = (selectable_names(p) for p in choice.fallbacks)
    assert "merge-clamps" not in careful
    assert "merge-clamps" in basic
    with pytest.raises(UsageError, match="the fallback of lost: no pass or pipeline is named carefull"):
        resolve_pipeline(f"{tmp_path / 'p.toml'}:lost")


def test_pipelines_that_fall_back_to_each_other() -> None:
    plugin = Plugin(pipelines={"a": Pipeline("a", (CELU,), fallback="b"), "b": Pipeline("b", (CELU,), fallback="a")})
    with pytest.raises(UsageError, match="pipelines that fall back to each other: a -> b -> a"):
        resolve_pipeline("a", [plugin])


def test_page_of_a_race() -> None:
    won = PipelineRace("basic", RatioInterval(0.8, 0.75, 0.85))
    lost = PipelineRace("fast", RatioInterval(1.2, 1.1, 1.3), is_lost=True)
    page = samples.run_page(replace(samples.report(), speed=SpeedCheck([lost, won], 2, {})), Visualization())
    for text in ("latency under ORT ALL", "0.80", "slower than the original", "with ORT ALL 1.20 (1.10-1.30)"):
        assert text in page


def test_inner_phase_does_not_count_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"now": 0.0}
    monkeypatch.setattr("passwright.core.run.phase_timer.perf_counter", lambda: times["now"])
    timer = PhaseTimer(lambda _: None)
    with timer.phase("outer"):
        times["now"] = 1.0
        with timer.phase("inner"):
            times["now"] = 5.0
            with timer.phase("innermost"):
                times["now"] = 6.0
        times["now"] = 7.0
    with timer.phase("outer"):
        times["now"] = 8.0
    assert timer.seconds == {"innermost": 1.0, "inner": 4.0, "outer": 3.0}
