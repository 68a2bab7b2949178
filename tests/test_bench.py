"""`passes bench`: metrics and accuracy of several models side by side."""

import json
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import commands
import numpy as np
import onnx
import pytest
from passwright.app.measure.accuracy import LabelledSet, labelled_outputs, load_metric
from passwright.app.measure.bench import BenchReport, ModelBenchmark, figures_of
from passwright.app.measure.criterion import Budget, JointCriterion, LabelledPart
from passwright.app.measure.document import describe
from passwright.app.measure.metrics import Latency, ModelMetrics, RatioInterval
from passwright.app.measure.ready_metrics import top_1
from passwright.app.options import parse_batch
from passwright.app.report.document import Lines
from passwright.core.errors import ModelError, PassesError, PluginError, UsageError
from passwright.core.io.model_source import model_source
from passwright.core.ort.backends import LoadedModel
from passwright.core.ort.sessions import CPU, SessionConfig
from passwright.core.verify.input_specs import input_specs
from rewriting import each, load
from simulated_races import SimulatedMachine

from passwright import bench

GOLDEN = Path(__file__).parent.parent / "golden_models"
pytestmark = pytest.mark.usefixtures("_commands_measure_briefly")
SCORES = "g (float[{n},3] x) => (float[{n},3] y) {{ y = Softmax(x) }}"
NAMES = "g (float[N,3] x) => (int64[N] c, float[N,3] x2) { c = ArgMax<axis=1,keepdims=0>(x) x2 = Identity(x) }"
ROWS = np.array([[1, 0, 0], [0, 5, 1], [0, 1, 2], [3, 0, 0], [0, 0, 1]], np.float32)
TRUTH = np.array([0, 1, 2, 0, 1])  # the last is wrong
LOSS = np.mean(np.log(np.exp(ROWS).sum(1)) - ROWS[range(5), TRUTH])


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> SimulatedMachine:
    return SimulatedMachine(lambda _: 1e-3).replace_real_one(monkeypatch)


def saved(folder: Path, text: str, name: str = "m.onnx") -> Path:
    onnx.save(load(text), folder / name)
    return folder / name


def labelled(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "set.npz", **arrays)
    return folder / "set.npz"


invoke = partial(commands.invoke, "bench")


def test_command_prints_table_and_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = saved(tmp_path, SCORES.format(n="N"))
    twin = saved(tmp_path, SCORES.format(n="N"), "twin.onnx")
    output = invoke(
        path, twin, "--batch", "4", "--min-time", "0.02", "--threads", "1",
        "--labelled", labelled(tmp_path, x=ROWS, labels=TRUTH), "--metric", "top1, loss", "--json", tmp_path / "r.json",
    ).output  # fmt: skip
    columns = ["on disk", "session created in", "memory", "virtual", "top-1", "loss", "median", "p99", "samples/s"]
    for column in columns:
        assert column in output
    assert output.count("0.8000") == 2
    assert "top-1 and loss over 5 labelled samples" in output
    assert "at level all, 1 thread\n" in output
    assert "all nodes ran on cpu" in output
    assert re.search(r"twin\.onnx with a batch of 4: .*\(\d", output)
    data = json.loads((tmp_path / "r.json").read_text())
    assert (data["batches"], data["level"], data["provider"], data["metric"]) == ([1, 4], "all", CPU, "top-1")
    assert data["further_metrics"] == ["loss"]
    for m in data["models"]:
        assert m["bytes"] == path.stat().st_size
        assert m["accuracy"] == 0.8
        assert m["further_figures"] == {"loss": pytest.approx(LOSS, rel=1e-5)}
        assert m["measured"]["virtual_bytes"] > m["measured"]["resident_bytes"]
        assert m["measured"]["providers"] == {CPU: 1}
        assert m["measured"]["resident_bytes"] > m["measured"]["baseline_bytes"] > 0
        four = m["measured"]["latencies"]["4"]
        assert four["throughput"] == pytest.approx(4 / four["median"])
        assert four["median_low"] <= four["median"] * 1.5
    assert data["models"][0]["ratios"] == {}
    assert data["models"][1]["ratios"]["4"].keys() == {"ratio", "low", "high", "inconclusive", "is_significant"}


def test_json_to_stdout(tmp_path: Path, simulated: SimulatedMachine) -> None:
    text = invoke(saved(tmp_path, NAMES), "--batch", "1", "--json", "-").output
    assert [m["model"] for m in json.loads(text)["models"]] == [str(tmp_path / "m.onnx")]
    assert len(simulated.races) == 1


@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="division traps on x86 only")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has exit codes for signals")
def test_models_that_do_not_load_or_crash_do_not_stop_others(tmp_path: Path) -> None:
    text = """g (float[N,3] x) => (int32 y, float[N,3] z) <int32 least = {-2147483648}, int32 minus = {-1}>
        { y = Div(least, minus) z = Relu(x) }"""
    crashes, bad = saved(tmp_path, text, "crashes.onnx"), tmp_path / "bad.onnx"
    bad.write_bytes(b"nothing")
    files = (bad, crashes, saved(tmp_path, NAMES))
    output = invoke(*files, "--min-time", "0.01", "--batch", "1", code=1).output
    assert re.search(r"bad\.onnx: not measured: \S", output)
    assert "crashes.onnx: not measured: no inputs were found on which it runs: onnxruntime crashed (SIGFPE)" in output
    assert re.search(r"m\.onnx +│ +1 ", output)


@pytest.mark.usefixtures("simulated")
def test_model_with_other_inputs_gets_own_inputs(tmp_path: Path) -> None:
    other = saved(tmp_path, "g (float[N,2] u) => (float[N,2] v) { v = Relu(u) }", "other.onnx")
    found = bench([saved(tmp_path, NAMES), other], batch=(1,))
    assert [m.own_inputs for m in found.models] == [False, True]
    assert not found.failed
    assert 1 in found.models[1].ratios


USAGE_ERRORS = [
    ("--batch 0", 2, "--batch 0: not of the form 1,32"),
    ("--batch a", 2, "--batch a"),
    ("--level most", 2, "--level most: unknown level; choose from disable, basic, extended, layout, all"),
    ("--ep nonesuch", 2, "no execution provider nonesuch"),
    ("--metric m.py", 2, "--metric needs a labelled set"),
    ("--labelled none.npz", 1, "none.npz does not exist"),
    ("--inputs none.npz", 1, "none.npz does not exist"),
    ("--dim M=1", 1, "--dim M"),
    ("--json {model}", 1, "would overwrite"),
    ("missing.onnx", 1, "missing.onnx does not exist"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), USAGE_ERRORS)
def test_usage_errors(arguments: str, code: int, message: str, tmp_path: Path) -> None:
    path = saved(tmp_path, NAMES)
    before = path.read_bytes()
    result = invoke(path, *(a.format(model=path) for a in arguments.split()), code=code)
    assert message in " ".join(result.output.split())
    assert result.output.count("error:") == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize(("text", "batches"), [("1,32", (1, 32)), ("8", (1, 8)), (" 4 , 2,4", (1, 2, 4))])
def test_batches(text: str, batches: tuple[int, ...]) -> None:
    assert parse_batch(text) == batches


@each("text", ["", "1,", "-1", "1.5", "0", "x", "99999999999"])
def test_invalid_batches(text: str) -> None:
    with pytest.raises(ValueError, match="not of the form 1,32"):
        parse_batch(text)


def accuracy(path: Path, examples: Path, metric: str = "") -> float:
    source = model_source(path, inline=False)
    (found,) = figures_of(source, SessionConfig("ENABLE_ALL"), LabelledSet.read(examples), [load_metric(metric)])
    return found


def test_figures_have_intervals_where_they_differ_among_rows(tmp_path: Path) -> None:
    path, labelled = tmp_path / "m.onnx", tmp_path / "rows.npz"
    onnx.save(load("g (float[N,3] x) => (float[N,3] y) { y = Identity(x) }"), path)
    x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    labels = x.argmax(1)
    labels[:10] = (labels[:10] + 1) % 3
    np.savez(labelled, x=x, labels=labels)
    report = bench(path, labelled=labelled, metric="top1,loss", batch=(1,), threads=1, min_time=0.01)
    (found,) = report.models
    assert found.accuracy == pytest.approx(0.9)
    assert found.intervals["top-1"] == pytest.approx((0.84, 0.96), abs=0.03)
    assert found.intervals["loss"][0] < found.further_figures["loss"] < found.intervals["loss"][1]
    np.savez(labelled, x=x, labels=x.argmax(1))
    assert not bench(path, labelled=labelled, batch=(1,), threads=1, min_time=0.01).models[0].intervals


@pytest.mark.parametrize("batch", ["N", "1", "2", "3", "7"])
def test_top_1_at_any_batch_size(batch: str, tmp_path: Path) -> None:
    """Five rows in batches of 1, 2, 3 or 7: padding rows are not counted as samples."""
    path = saved(tmp_path, SCORES.format(n=batch))
    assert accuracy(path, labelled(tmp_path, x=ROWS, labels=TRUTH)) == 0.8


def test_more_rows_than_one_run_takes(tmp_path: Path) -> None:
    rows, labels = np.tile(ROWS, (20, 1)), np.tile(TRUTH, 20)
    assert accuracy(saved(tmp_path, SCORES.format(n="N")), labelled(tmp_path, x=rows, truth=labels)) == 0.8


def test_symbolic_batch_fixed_by_reshape(tmp_path: Path) -> None:
    text = "g (float[N,3] x) => (float[1,3] y) <int64[2] s = {1,3}> { y = Reshape(x, s) }"
    assert accuracy(saved(tmp_path, text), labelled(tmp_path, x=ROWS, labels=TRUTH)) == 0.8


ACCURACIES: list[tuple[Any, Any, float]] = [
    (ROWS, TRUTH, 0.8),
    (ROWS.astype(np.float16), TRUTH.astype(np.uint8).reshape(-1, 1), 0.8),
    (np.array([0, 1, 1, 0, 1]), TRUTH, 0.8),
    (np.array([[0], [1], [1], [0], [1]]), TRUTH, 0.8),
    (np.array(["a", "b"], object), np.array(["a", "c"]), 0.5),
    (np.array([True, False]), np.array([1, 1]), 0.5),
    (np.stack([ROWS, ROWS]), np.stack([TRUTH, TRUTH * 0]), 0.6),
]


def test_top_1() -> None:
    found = [top_1({"y": output, "z": None}, labels) for output, labels, _ in ACCURACIES]
    assert found == pytest.approx([share for *_, share in ACCURACIES])


UNUSABLE: list[tuple[Any, Any, str]] = [
    (ROWS[:, :1], TRUTH, "y of shape .* does not score classes"),
    (ROWS[:, 0], TRUTH, "y of shape .* does not score classes"),
    (ROWS, np.zeros((5, 4), int), "the labels have"),
    (np.array(["a"], object), np.array([0]), "names classes by strings, the labels by numbers"),
    ([{"a": 1.0}], np.array(["a"]), "no output has a row for each label"),
]


@each(("output", "labels", "message"), UNUSABLE)
def test_top_1_errors(output: Any, labels: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        top_1({"y": output}, labels)


def test_nan_scores_count_as_wrong() -> None:
    assert top_1({"y": np.array([[np.nan, 0], [0, np.nan], [0, 1]], np.float32)}, np.array([0, 1, 1])) == 1 / 3


def test_string_labels_of_classifier(tmp_path: Path) -> None:
    """Labels predicted by the model itself have an accuracy of 1."""
    path = GOLDEN / "sklearn_strings.onnx"
    columns = {
        "colour": np.array([["red"], ["blue"], ["green"]]),
        "shape": np.array([["round"], ["square"], ["round"]]),
        "numbers": np.array([[0, 1], [2, 3], [4, 5]], np.float32),
    }
    outputs = [end.name for end in onnx.load(path).graph.output]
    feeds = {name: a.astype(object) if a.dtype.kind == "U" else a for name, a in columns.items()}
    own = np.asarray(LoadedModel(path).run(outputs[:1], feeds)[0])
    labels = own.astype(str) if own.dtype.kind == "O" else own
    assert accuracy(path, labelled(tmp_path, **columns, labels=labels)) == 1.0


METRICS = """
import numpy as np
def metric(outputs, labels):
    print("noise")
    return np.mean(np.argmax(outputs["y"], -1) == labels) / 2
def breaks(outputs, labels):
    return 1 / 0
def nothing(outputs, labels):
    return float("nan")
word = 3
"""


@pytest.mark.parametrize("function", ["", ":metric"])
def test_custom_metric(function: str, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(METRICS)
    path = saved(tmp_path, SCORES.format(n="N"))
    examples = labelled(tmp_path, x=ROWS, labels=TRUTH)
    assert accuracy(path, examples, metric=f"{tmp_path / 'f.py'}{function}") == pytest.approx(0.4)


METRIC_ERRORS = [
    ("f.py:missing", UsageError, "has no function missing"),
    ("f.py:word", UsageError, "has no function word"),
    ("f.txt", UsageError, "f.txt: choose from top1, top5, .*, or give file.py:function"),
    ("none.py", PluginError, "none.py does not exist"),
    ("broken.py", PluginError, "ValueError: at once"),
    ("f.py:breaks", PluginError, "f.py:breaks: ZeroDivisionError"),
    ("f.py:nothing", ModelError, "returned nan"),
]


@pytest.mark.parametrize(("metric", "error", "message"), METRIC_ERRORS)
def test_metric_errors(metric: str, error: type[PassesError], message: str, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(METRICS)
    (tmp_path / "broken.py").write_text("raise ValueError('at once')")
    with pytest.raises(error, match=message) as caught:
        load_metric(str(tmp_path / metric))({"y": ROWS}, TRUTH)
    assert "\n" not in str(caught.value)


ROWS_ANYWHERE = """u = Unsqueeze(x, front) steps = Concat<axis = 0>(u, u, u, u, u) d = Concat<axis = 1>(x, x)
    doubled = Reshape(d, three) mean = ReduceMean<keepdims = 0>(x) g = Greater(x, zero) b = Reshape(g, flat)
    positive = Compress(x, b) y = Identity(x)"""
CONSTANTS = "<int64[1] front = {0}, int64[2] three = {-1, 3}, int64[1] flat = {-1}, float zero = {0}>"


def rows_anywhere(folder: Path, batch: str, declared: str, further: str, **arrays: Any) -> dict[str, Any]:
    """The outputs on five rows of a model whose first output has as many steps."""
    ends = f"float[T,B,3] steps, float[M,3] doubled, float[] mean, float[K] positive, float[{batch},3] y"
    states = ", float[2,B,4] states" if further else ""
    head = f"g (float[{batch},3] x{declared}) => ({ends}{states})"
    path = saved(folder, f"{head} {CONSTANTS} {{ {ROWS_ANYWHERE} {further} }}")
    names = ["steps", "doubled", "mean", "positive", "y", *(["states"] if further else [])]
    examples = LabelledSet("set", {"x": ROWS, "labels": TRUTH, **arrays})
    found = labelled_outputs(LoadedModel(path), input_specs(model_source(path, inline=False).load()), names, examples)
    assert list(found) == names
    np.testing.assert_array_equal(found["y"], ROWS)
    np.testing.assert_array_equal(found["steps"], np.stack([ROWS] * 5, 1))
    if batch == "N":
        np.testing.assert_array_equal(found["doubled"], np.repeat(ROWS, 2, 0))
    assert isinstance(found["mean"], list)
    return found


def test_outputs_have_rows_wherever_the_batch_is(tmp_path: Path) -> None:
    s = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    found = rows_anywhere(tmp_path, "N", ", float[2,N,4] s", "states = Add(s, s)", s=s)
    np.testing.assert_array_equal(found["states"], np.moveaxis(2 * s, 1, 0))
    np.testing.assert_allclose(found["mean"], ROWS.mean(1), rtol=1e-5)
    for row, positive in zip(ROWS, found["positive"], strict=True):
        np.testing.assert_array_equal(positive, row[row > 0])


def test_one_state_is_that_of_all_rows(tmp_path: Path) -> None:
    s = np.ones((2, 1, 4), np.float32)
    found = rows_anywhere(tmp_path, "N", ", float[2,N,4] s", "states = Add(s, s)", s=s)
    np.testing.assert_array_equal(found["states"], np.full((5, 2, 4), 2))


@pytest.mark.parametrize("batch", ["1", "3"])
def test_rows_of_a_fixed_batch(tmp_path: Path, batch: str) -> None:
    found = rows_anywhere(tmp_path, batch, "", "")
    assert len(found["positive"]) == len(found["mean"]) == -(-5 // int(batch))


def test_axes_of_rows_are_those_that_grow(tmp_path: Path) -> None:
    """An output of three numbers whatever the batch is has no rows in a batch of three."""
    head = "g (float[N,3] x) => (float[3] a, float[N,3] y) <int64[1] f = {0}>"
    path = saved(tmp_path, f"{head} {{ a = ReduceSum<keepdims = 0>(x, f) y = Neg(x) }}")
    found = labelled_outputs(
        LoadedModel(path),
        input_specs(model_source(path, inline=False).load()),
        ["a", "y"],
        LabelledSet("set", {"x": ROWS[:3], "labels": TRUTH[:3]}),
    )
    np.testing.assert_array_equal(found["a"], list(ROWS[:3]))
    assert isinstance(found["a"], list)


def test_axes_of_rows_are_found_once(tmp_path: Path) -> None:
    """The first model also runs two small batches; others run all rows alone."""
    batches: list[int] = []

    class Noted(LoadedModel):
        def run(self, outputs: Sequence[str], feeds: Mapping[str, Any]) -> list[Any]:
            batches.append(len(feeds["x"]))
            return super().run(outputs, feeds)

    path = saved(tmp_path, "g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }")
    inputs, known = input_specs(model_source(path, inline=False).load()), dict[str, int | None]()
    for _ in range(2):
        found = labelled_outputs(
            Noted(path), inputs, ["y"], LabelledSet("set", {"x": ROWS, "labels": TRUTH}), known=known
        )
        np.testing.assert_array_equal(found["y"], -ROWS)
    assert (batches, known) == ([2, 3, 5, 5], {"y": 0})


def test_outputs_without_rows_are_said(tmp_path: Path) -> None:
    path = saved(
        tmp_path, "g (float[N,3] x) => (float[N,3] y, float[] m) { y = Neg(x) m = ReduceSum<keepdims = 0>(x) }"
    )
    examples = labelled(tmp_path, x=ROWS, labels=TRUTH)
    report = bench([path], labelled=examples, batch=(1,), min_time=0.01, threads=1)
    assert report.note.endswith("m has no batch axis: a metric receives a list of the outputs of each run")


MISMATCHED: list[tuple[dict[str, Any], str]] = [
    ({"x": ROWS, "labels": TRUTH[:4]}, "x has 5 rows, the labels have 4"),
    ({"labels": TRUTH}, "lack x"),
    ({"x": ROWS}, "it has no array labels; there are only inputs"),
    ({"x": ROWS, "a": TRUTH, "b": TRUTH}, "any of a, b may be"),
    ({"x": ROWS.astype(np.float64), "labels": TRUTH}, "x of the labelled .* is float64; the model needs float32"),
    ({"x": ROWS, "labels": np.array(3)}, "labels has no rows"),
]


@pytest.mark.parametrize(("arrays", "message"), MISMATCHED)
def test_mismatched_labelled_set(arrays: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        accuracy(saved(tmp_path, SCORES.format(n="N")), labelled(tmp_path, **arrays))


def latency(median: float) -> Latency:
    return Latency(1, 9, median, median * 0.9, median * 1.1, median * 2, median * 3)


def bench_report(**changes: Any) -> BenchReport:
    measured = ModelMetrics("", 0.1, 9, 9, 5, {CPU: 4}, {1: latency(0.01)}, 2)
    models = [
        ModelBenchmark("a/m.onnx", 5, measured),
        ModelBenchmark("b/m.onnx", 5, measured, {1: RatioInterval(1.01, 0.98, 1.03)}),
        ModelBenchmark("c.onnx", 5, measured, {1: RatioInterval(0.5, 0.4, 0.6)}),
    ]
    fields = {"level": "all", "provider": CPU, "threads": 0, "batches": [1], "sizes": {"time": 4}, **changes}
    return BenchReport(models, **fields, versions={"onnxruntime": "1"})


def lines_of(report: BenchReport) -> list[str]:
    document = describe(report)
    return [document.verdict, *(line for block in document.blocks if isinstance(block, Lines) for line in block)]


def test_summary_lines_of_ratios() -> None:
    lines = lines_of(bench_report())
    assert "b/m.onnx with a single sample: no difference (0.98-1.03) compared with a/m.onnx" in lines
    assert "c.onnx with a single sample: 0.50 (0.40-0.60) times as long as a/m.onnx" in lines
    assert "sizes: time=4" in lines


def test_unused_provider_is_reported() -> None:
    lines = lines_of(bench_report(provider="CUDAExecutionProvider"))
    assert "c.onnx: 4 nodes on cpu, none on cuda" in lines


@pytest.mark.parametrize("shift", [0, 1])
def test_an_original_that_finds_no_label_is_said(tmp_path: Path, shift: int) -> None:
    path = saved(tmp_path, "g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }")
    inputs = input_specs(model_source(path, inline=False).load())
    rows = np.random.default_rng(0).random((6, 3), np.float32)
    examples = LabelledSet("set", {"x": rows, "labels": (rows.argmin(1) + shift) % 3})
    found = LabelledPart(examples, inputs, "top1").criterion(["y"], Budget.parse("1%"), path)
    said = ["top-1 of the original is 0, so no loss can be measured: check the labels"]
    assert (found.reference, list(found.notes)) == (1.0 - shift, said * shift)


def test_outputs_that_a_metric_is_not_for() -> None:
    """Failures of the original end a search, failures of a candidate are a reason not to take it."""
    rows = np.random.default_rng(0).random((6, 3), np.float32)
    examples = LabelledSet("set", {"x": rows, "labels": rows.argmin(1)})
    right, wrong = (
        load(f"g (float[N,3] x) => (float[N,3] y) {{ {body} }}").SerializeToString()
        for body in ("y = Neg(x)", "m = ReduceSum<keepdims = 0>(x) y = Neg(m)")
    )
    inputs = input_specs(model_source(onnx.ModelProto.FromString(right), inline=False).load())
    part, budget = LabelledPart(examples, inputs, "top1"), Budget.parse("1%")
    score = part.criterion(["y"], budget, right).score(wrong)
    assert (score.figure, score.failure) == (
        -np.inf,
        "no output has a row for each label; define accuracy with --metric",
    )
    with pytest.raises(ModelError, match="no output has a row for each label"):
        part.criterion(["y"], budget, wrong)


def test_rows_that_depend_on_their_batch_are_scored_in_batches_and_alone() -> None:
    """Alone, both numbers of the first row are rounded to the same one."""
    exact, rounded = (
        load(f"g (float[N,2] x) => (float[N,2] y) {{ {body} }}")
        for body in ("y = Identity(x)", "q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)")
    )
    inputs, budget = input_specs(model_source(exact, inline=False).load()), Budget.parse("1%")
    original, other = exact.SerializeToString(), rounded.SerializeToString()
    rows, labels = np.array([[254.6, 255], [0, 255.3]], np.float32), np.ones(2, np.int64)
    part = LabelledPart(LabelledSet("set", {"x": rows, "labels": labels}), inputs, "top1")
    criterion = part.criterion(["y"], budget, original)
    assert (criterion.score(other).figure, criterion.score(original).figure) == (0.5, 1)
    joint = JointCriterion((criterion, criterion))
    joint.measure_original(original)
    assert (joint.score(other).figure, joint.reference) == (0.5, 1)
    own = part.criterion(["y"], budget, other)
    assert (own.score(other).loss, own.score(original).loss) == (0, 0)
    joint.measure_original(other)
    assert joint.score(other).loss == 0
