"""The page and the report of a quantization, of a real run whose races the tests decide."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import onnx
import pytest
from executable_documents import ROOT, blocks, write_file
from msgspec import structs
from onnx import numpy_helper
from page_parser import ParsedPage
from passwright.app.measure.agreement import Score
from passwright.app.measure.metrics import ModelMetrics
from passwright.app.quantize import quantize as quantize_module
from passwright.app.quantize.candidates import CandidateBuilder
from passwright.app.quantize.document import (
    describe,
    error_charts,
    float_table,
    front_charts,
    histogram_steps,
    summary_line,
)
from passwright.app.quantize.inventory import quantized_ops
from passwright.app.quantize.quantize import OriginalRace, page_text
from passwright.app.quantize.report import FloatOp, QuantizationReport, QuantizedOp
from passwright.app.quantize.schemes import SCHEMES, Calibration, chosen_schemes, lossy_passes
from passwright.app.quantize.search import BuiltCandidate, RaceRatios, Trial
from passwright.app.report.charts import Curve, PlaneChart, pareto_front
from passwright.app.report.page import page_html
from passwright.core import QuantizationSpec, Range
from passwright.core.calibration.statistics import StatisticsCollector, ValueStatistics
from passwright.core.io.model_source import model_source
from passwright.core.support.confidence_intervals import RatioInterval
from rewriting import each, load
from sample_reports import quantization

from passwright import quantize

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
DIGITS = ROOT / "golden_models" / "trained"
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e"


def ratio(number: float) -> RatioInterval:
    return RatioInterval(number, number * 0.98, number * 1.02)


@dataclass
class Run:
    """A run, the page and the report that it wrote, and its model."""

    made: QuantizationReport
    model_file: Path
    page: str
    report: dict[str, Any]


def simulate_races(patch: pytest.MonkeyPatch) -> None:
    """Let every candidate take 0.6 of the original's time."""

    def fast(_: OriginalRace, models: Sequence[Path], __: Sequence[str]) -> list[RaceRatios]:
        return [RaceRatios(ratio(0.6))] * len(models)

    measure = OriginalRace.measure

    def brief(racing: OriginalRace, models: Sequence[Path], _: Sequence[str] = ()) -> list[ModelMetrics]:
        return measure(racing, models, sets=1)

    patch.setattr(OriginalRace, "ratios", fast)
    patch.setattr(OriginalRace, "measure", brief)
    patch.setattr(quantize_module, "latency_ratios", lambda *_: {1: ratio(0.6)})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with simulated races."""
    folder = tmp_path_factory.mktemp("run")
    model, page, report = (folder / name for name in ("o.onnx", "page.html", "report.json"))
    with pytest.MonkeyPatch.context() as patch:
        simulate_races(patch)
        result = quantize(
            DIGITS / "digits_mlp.onnx",
            data=DIGITS / "digits_mlp_calibration.npz",
            labelled=DIGITS / "digits_mlp_labelled.npz",
            scheme="static",
            threads=1,
            min_time=0.01,
            output=model,
            html=page,
            json=report,
        )
    return Run(result.report, model, page.read_text("utf-8"), json.loads(report.read_text("utf-8")))


def test_ops_are_reported_with_bits_scales_and_errors(run: Run) -> None:
    assert run.report["scheme"] == "static"
    ops = {op["value"]: op for op in run.report["quantized"]}
    assert list(ops) == ["relu", "relu_1", "scores"]  # in the order of the model
    assert {(op["operator"], op["rule"], op["weight_bits"]) for op in ops.values()} == {("Gemm", "quantize_gemm", 8)}
    assert [op["bits"] for op in ops.values()] == [8, 8, None]  # the last result is not rounded
    written = onnx.load(run.model_file)
    numbers = {t.name: numpy_helper.to_array(t) for t in written.graph.initializer}
    for node in written.graph.node:
        if node.op_type == "DequantizeLinear" and node.output[0] in ops:
            assert ops[node.output[0]]["scale"] == pytest.approx(float(numbers[node.input[1]]))


def test_a_journal_has_the_figures_of_a_metric_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_races(monkeypatch)
    metric, figures = tmp_path / "m.py", list[float]()
    for figure in (0.25, 0.5):
        metric.write_text(f"def metric(outputs, labels):\n    return {figure}\n")
        result = quantize(
            DIGITS / "digits_mlp.onnx",
            labelled=DIGITS / "digits_mlp_labelled.npz",
            metric=str(metric),
            scheme="half-weights",
            goal="size",
            trials=1,
            min_time=0.01,
            journal=tmp_path / "journal",
        )
        figures.append(next(t.score.figure for t in result.report.trials if t.score is not None))
    assert figures == [0.25, 0.5]


def test_ops_whose_reasons_differ_in_names_are_one_row(run: Run) -> None:
    reasons = [
        *(("Mul", f"c (/a/Tanh_{n}) is not constant: it comes from Tanh /a/Tanh_{n}") for n in range(3)),
        ("Mul", "c (/b/Exp) is not constant: it comes from Exp /b/Exp"),
        *(("Mul", f"4 of the {n} elements are 0") for n in (16, 32)),
    ]
    report = replace(run.made, float_ops=[FloatOp(str(n), *pair) for n, pair in enumerate(reasons)])
    shown = [row.cells for row in float_table(report).rows]
    assert shown == [
        ("Mul", "3", "c ... is not constant: it comes from Tanh ..."),
        ("Mul", "1", "c (/b/Exp) is not constant: it comes from Exp /b/Exp"),
        *(("Mul", "1", f"4 of the {n} elements are 0") for n in (16, 32)),
    ]


def test_errors_are_those_of_the_values(run: Run) -> None:
    """The first value has only an error of its own, near that of rounding: a twelfth of the squared step, at least."""
    first, *others = run.report["quantized"]
    assert first["error"] == first["own_error"]
    assert 1e-6 < first["error"] < 1e-2
    assert all(0 <= op["own_error"] <= op["error"] for op in others)


def test_page_has_a_section_for_each_part(run: Run) -> None:
    found = ParsedPage(run.page)
    assert {"quantization", "trials", "quantized"} <= set(found.ids)
    for text in ("digits_mlp.onnx", "p99", "memory, peak", "samples/s", "quantize_gemm", "299 for search", "taken"):
        assert text in found.text
    assert "no guarantee" in found.text


def test_page_shows_the_ranges_of_sensitive_values(run: Run) -> None:
    text = ParsedPage(run.page).text
    for op in run.report["quantized"]:
        assert f"{op['value']}calibrated range" in text.replace("\n", "")


def test_page_of_changes_of_values_that_the_float_model_lacks(tmp_path: Path) -> None:
    """As a change of a pruned model may be of a weight that an earlier change made."""
    taken, other = built(tmp_path, "half-weights"), load("g (float[N,64] x) => (float[N,64] y) { y = Relu(x) }")
    spec = structs.replace(taken.builder.spec, ranges={"y": Range(-1, 1)})
    taken = replace(taken, builder=structs.replace(taken.builder, spec=spec))
    calibration = Calibration(model_source(other, inline=True), [{"x": np.ones((2, 64), np.float32)}])
    page = ParsedPage(page_text(quantization(["y", "y_pw1", "y_pw2"]), taken, calibration))
    assert page.text.count("calibrated range") == 1


def test_original_without_changes_has_a_page(run: Run) -> None:
    kept = replace(run.made, scheme="", result=run.made.original, quantized=[], trials=[])
    page = ParsedPage(page_html(describe(kept)))
    assert "the original is kept" in page.text
    assert {"quantized", "in-float"} & set(page.ids) == set()


@each(
    ("goal", "ended_by", "scores", "words"),
    [
        ("latency", "", 2, "no candidate was within the budget and faster or smaller"),
        ("size", "", 2, "no candidate was within the budget and smaller"),
        ("latency", "time", 0, "the search ran out of time before a candidate that may be faster or smaller"),
        ("latency", "time", 2, "the search ran out of time, and none of the 2 scored candidates was within the"),
        (
            "memory",
            "trials",
            1,
            "the search reached its number of trials, and the only scored candidate was not within the",
        ),
    ],
)
def test_a_search_that_ended_early_says_so(run: Run, goal: Any, ended_by: str, scores: int, words: str) -> None:
    trials = [trial(0.5, 0.9, "over the budget")] * scores
    kept = replace(run.made, scheme="", result=run.made.original, quantized=[], trials=trials)
    report = replace(kept, goal=goal, ended_by=ended_by)
    document = describe(report)
    assert report.is_undecided == (not scores)
    assert words in document.verdict
    page = ParsedPage(page_html(document))
    assert page.text.count(words) == 2  # the verdict, and the tile of the result
    hint = f"raise --{ended_by}" if ended_by else "to resume it"
    assert (hint in page.text) == bool(ended_by)


def trial(time: float | None, figure: float, outcome: str = "") -> Trial:
    measured = None if time is None else ratio(time)
    return Trial("static", "", 1, 0, 1, Score(figure, 0.0), measured, outcome)


def test_front_has_the_points_that_no_other_beats() -> None:
    points = [(0.5, 0.9), (0.5, 0.8), (0.7, 0.85), (0.8, 0.95), (0.9, 0.95), (1.0, 1.0)]
    assert pareto_front(points[::-1]) == [(0.5, 0.9), (0.8, 0.95), (1.0, 1.0)]


def test_chart_has_a_dot_for_each_measured_trial(run: Run) -> None:
    trials = [trial(0.5, 0.9), trial(0.7, 0.95), trial(0.8, 0.92), trial(None, 0.9), trial(0.6, 0.93, "taken")]
    (chart,) = front_charts(replace(run.made, trials=trials))
    assert dots(chart.svg()) == {"plain": 3, "ours": 1, "baseline": 1}
    (without,) = front_charts(replace(run.made, trials=trials, reference=inf))
    assert dots(without.svg()) == {"plain": 3, "ours": 1}
    assert not list(front_charts(replace(run.made, trials=[trials[3], trial(0.1, -inf)])))


def dots(chart: str) -> Counter[str]:
    return Counter(e.get("class", "").split()[-1] for e in ET.fromstring(chart).iter() if "cx" in e.attrib)


def test_points_lie_where_their_numbers_are() -> None:
    drawn = PlaneChart("<t>", "", [Curve([(0, 1), (1, 3), (4, 2)], "plain")], ("x", "y"), (str, str)).svg()
    places = [(float(e.attrib["cx"]), float(e.attrib["cy"])) for e in ET.fromstring(drawn).iter() if "cx" in e.attrib]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert (x2 - x0) / (x1 - x0) == pytest.approx(4)
    assert (y0 - y1) / (y0 - y2) == pytest.approx(2)
    for unwanted in ("<script", "<style", "<desc", "<title", "pygal", " id=", "Consolas", "<t>"):
        assert unwanted not in drawn


def test_sensitivities_are_sorted(run: Run) -> None:
    ops = [QuantizedOp(name, "Conv", "r", own_error=error) for name, error in (("a", 0.1), ("b", 0.3), ("c", None))]
    (chart,) = error_charts(replace(run.made, quantized=ops))
    labels = [e.text for e in ET.fromstring(chart.svg()).iter() if (e.text or "").startswith("Conv")]
    assert labels == ["Conv a", "Conv b"]  # from the bottom
    assert not list(error_charts(replace(run.made, quantized=ops[2:])))


def collected(numbers: np.ndarray[Any, Any]) -> ValueStatistics:
    collector = StatisticsCollector("v")
    collector.add(numbers, 0)
    return collector.statistics()


@pytest.mark.parametrize("numbers", [[1.0], [-2.0, 3.0], np.linspace(-5, 9, 5000)])
def test_steps_have_the_counts_of_the_histogram(numbers: Any) -> None:
    found = collected(np.asarray(numbers, np.float32)).histogram
    assert found is not None
    steps = histogram_steps(found)
    assert steps[0][1] == steps[-1][1] == 0
    counts = [10**high - 1 for (_, high), (_, same) in zip(steps[1:-1:2], steps[2:-1:2], strict=True) if high == same]
    assert sum(counts) == pytest.approx(len(numbers))
    edges = [x for x, _ in steps]
    assert edges == sorted(edges)
    assert edges[0] <= min(numbers)
    assert edges[-1] >= max(numbers)


@pytest.mark.parametrize(
    ("scheme", "bits", "weight_bits"), [("half", {16}, {None, 16}), ("half-weights", {None, 16}, {16})]
)
def test_bits_of_half_precision(tmp_path: Path, scheme: str, bits: set[int], weight_bits: set[int]) -> None:
    ops = quantized_ops(built(tmp_path, scheme))
    assert {op.weight_bits for op in ops} <= weight_bits
    assert {op.bits for op in ops} <= bits


def test_bits_of_stored_weights(tmp_path: Path) -> None:
    (op,) = quantized_ops(built(tmp_path, "int8-weights"))
    assert (op.value, op.operator, op.bits, op.weight_bits) == ("y", "MatMul", None, 8)
    assert op.weight_scale == pytest.approx(3 / 127, rel=0.01)


def test_bits_of_weights_in_blocks(tmp_path: Path) -> None:
    (op,) = quantized_ops(built(tmp_path, "weights4"))
    assert (op.value, op.operator, op.bits, op.weight_bits) == ("y", "MatMul", None, 4)
    assert op.weight_scale == pytest.approx(3 / 7, rel=0.3)
    (op,) = quantized_ops(built(tmp_path, "dynamic"))
    assert (op.value, op.operator, op.weight_bits) == ("y", "MatMul", 8)


@pytest.mark.parametrize(("scheme", "bits"), [("weights4", 4), ("weights8", 8), ("dynamic", 8)])
def test_bits_of_tables(scheme: str, bits: int, tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(600, 64)).astype(np.float32)
    model = load("g (int64[N] i) => (float[N,64] y) { y = Gather(w, i) }", 17, {"w": table})
    ((_, make), *_) = chosen_schemes(scheme, model_source(model, inline=True), None, QuantizationSpec())[scheme]
    builder = make(None)
    assert builder is not None
    candidate = builder.build()
    candidate.write(tmp_path / "made.onnx")
    (op,) = quantized_ops(BuiltCandidate(builder, candidate, tmp_path / "made.onnx", {}, Trial(scheme, "", 0, 0, 0)))
    assert (op.value, op.operator, op.bits, op.weight_bits) == ("y", "Gather", None, bits)


@pytest.mark.parametrize("output_format", ["qdq", "qoperator"])
def test_bits_of_both_formats(tmp_path: Path, output_format: str) -> None:
    """Also where pairs of the value moved behind a MaxPool, and where operators of onnxruntime have no types."""
    text = "c = Conv(x, w) s = Sigmoid(c) m = Mul(c, s) y = MaxPool<kernel_shape=[2,2]>(m)"
    weights = {"w": np.full((4, 4, 1, 1), 0.5, np.float32)}
    model = load(f"g (float[1,4,4,4] x) => (float[1,4,3,3] y) {{ {text} }}", weights=weights)
    source = model_source(model, inline=True)
    calibration = Calibration(source, [{"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 4, 4, 4)}])
    spec = QuantizationSpec(operators=frozenset({"Conv", "Sigmoid", "Mul", "MaxPool"}))
    ((_, make), *_) = chosen_schemes("static", source, calibration, spec, "minmax", output_format)["static"]
    ops = quantized_ops(written(make(None), tmp_path))
    assert [(op.value, op.operator, op.bits, op.weight_bits) for op in ops] == [
        ("c", "Conv", 8, 8), ("s", "Sigmoid", 8, None), ("m", "Mul", 8, None),
    ]  # fmt: skip
    assert ops[0].weight_scale == pytest.approx(0.5 / 127)
    ranges = {**calibration.ranges("minmax"), "s": Range(0, 1)}  # all that a Sigmoid makes
    for op in ops:
        assert op.scale == pytest.approx((ranges[op.value].high - ranges[op.value].low) / 255, rel=0.02)


def test_rule_of_the_documentation_takes_part(tmp_path: Path) -> None:
    document = ROOT / "docs" / "write-a-rule.md"
    (block,) = (b for b in blocks(document) if b.file == "hard_gates.py")
    plugins = lossy_passes([write_file(block, tmp_path)])
    source = model_source(load("g (float[N,4] x) => (float[N,4] y) { y = Sigmoid(x) }"), inline=True)
    scheme = structs.replace(SCHEMES["half-weights"], lossy=plugins)
    candidate = CandidateBuilder(source, scheme, QuantizationSpec()).build()
    assert [c.by for c in candidate.changes] == ["harden_sigmoid"]
    assert [op.type for op in candidate.model.graph.sorted_ops()] == ["HardSigmoid"]


def built(folder: Path, scheme: str) -> BuiltCandidate:
    """A candidate of a product with one matrix."""
    weights = np.random.default_rng(0).uniform(-3, 3, (64, 64)).astype(np.float32)
    model = load("g (float[N,64] x) => (float[N,64] y) { y = MatMul(x, w) }", weights={"w": weights})
    found = SCHEMES[scheme]
    settings = {**found.settings, **found.variants[0][1], "min_weights": 1}
    builder = CandidateBuilder(model_source(model, inline=True), found, QuantizationSpec(**settings))
    return written(builder, folder)


def written(builder: CandidateBuilder | None, folder: Path) -> BuiltCandidate:
    """The candidate of a builder in a file."""
    assert builder is not None
    candidate = builder.build()
    candidate.write(folder / "c.onnx")
    return BuiltCandidate(builder, candidate, folder / "c.onnx", {}, Trial(builder.scheme.name, "", 1, 0, 1))


def test_a_result_without_noise_is_exact() -> None:
    made = quantization(["a", "b", "c"])
    exact = replace(made, result=structs.replace(made.result, score=Score(inf, 0.0)))
    assert f"; {made.figure} exact on inputs that the search did not see" in summary_line(exact)
