"""`passes compare --quantized`: recipes of other tools, outcomes and options."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from msgspec import structs
from passwright.app.compare import quantized, tool_runs
from passwright.app.compare.comparison_report import QuantizedRow
from passwright.app.compare.quantized import compare_quantized, selected_quantizers, with_latency
from passwright.app.compare.quantized_document import describe
from passwright.app.measure.agreement import Score
from passwright.app.measure.metrics import ModelMetrics, RatioInterval
from passwright.app.quantize.quantize import QuantizationOptions
from passwright.app.registry.quantizers import QUANTIZERS, Quantizer
from passwright.app.report.page import page_html
from passwright.app.report.terminal import Terminal
from passwright.core.errors import UsageError
from rewriting import load
from simulated_races import SimulatedMachine

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
USAGE = 2
RNG = np.random.default_rng(0)
NET = "g (float[N,16] x) => (float[N,4] y) { h = MatMul(x, w) r = Relu(h) p = MatMul(r, v) y = Softmax(p) }"
WEIGHTS = {"w": RNG.normal(size=(16, 16)).astype(np.float32), "v": RNG.normal(size=(16, 4)).astype(np.float32)}
X = RNG.normal(size=(12, 16)).astype(np.float32)
MISSING = "missing tool"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(load(NET, 17, WEIGHTS), path)
    return path


@pytest.mark.parametrize("label", [label for label, q in QUANTIZERS.items() if q.tool == "ort"])
def test_recipes_of_onnxruntime(label: str, model: Path) -> None:
    result = model.with_name("quantized.onnx")
    QUANTIZERS[label].load()(model, ({"x": row[None]} for row in X), result)
    operators = {node.op_type for node in onnx.load(result).graph.node}
    assert operators & {"Cast" if label == "ORT float16" else "MatMulInteger", "QuantizeLinear"}


@pytest.mark.parametrize(("label", "function"), [("onnxsim", "quantize_auto"), ("NNCF", "quantize")])
def test_recipes_of_other_tools(label: str, function: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools are replaced by one that keeps the model, and the samples that it is given."""
    given: list[Any] = []

    def keep(source: str | onnx.ModelProto, samples: Any = None, calibration_data: Any = None) -> onnx.ModelProto:
        given.extend(samples or calibration_data)
        return onnx.load(source) if isinstance(source, str) else source

    tool = SimpleNamespace(**{function: keep, "Dataset": list})
    monkeypatch.setitem(sys.modules, QUANTIZERS[label].tool, tool)  # type: ignore[arg-type]
    result = model.with_name("quantized.onnx")
    QUANTIZERS[label].load()(model, ({"x": row[None]} for row in X), result)
    assert onnx.load(result) == onnx.load(model)
    np.testing.assert_array_equal(np.concatenate([sample["x"] for sample in given]), X)


class Within:
    """A criterion that allows a loss of 0.01."""

    name = "accuracy"
    reference = 1.0

    def score(self, model: object) -> Score:
        raise NotImplementedError

    def allows(self, score: Score) -> bool:
        return score.loss <= 0.01


@pytest.mark.parametrize(
    ("loss", "ratio", "failure", "outcome"),
    [
        (0.0, (0.4, 0.5), "", "faster"),
        (0.0, (0.9, 1.1), "", "as fast"),
        (0.0, (1.1, 1.2), "", "slower"),
        (0.0, (0.97, 1.17), "", "slower"),
        (0.02, (0.4, 0.5), "", "over the budget"),
        (0.02, (1.1, 1.2), "", "over the budget"),
        (0.0, (0.4, 0.5), "it crashed", "invalid"),
    ],
)
def test_outcomes(
    loss: float, ratio: tuple[float, float], failure: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios = {} if failure else {1: RatioInterval(sum(ratio) / 2, *ratio)}
    monkeypatch.setattr(quantized, "latency_ratios", lambda *_: ratios)
    row = QuantizedRow("ORT static", "", score=Score(1 - loss, loss))
    measured = ModelMetrics(failure=failure)
    assert with_latency(row, measured, ModelMetrics(), Within()).outcome == outcome


def test_tools_that_are_not_installed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_runs, "installed_version", lambda tool: "1" if tool == "ort" else None)
    labels, skipped = selected_quantizers(None)
    assert labels == ["ORT dynamic", "ORT static", "ORT U8S8", "ORT float16"]
    assert skipped == {name: f"not installed (pip install {name})" for name in ("onnxsim", "nncf")}
    assert selected_quantizers([]) == ([], {})
    with pytest.raises(UsageError, match=r"^--tools ortt: no optimizer has that name; did you mean ort\?$"):
        selected_quantizers(["ortt"])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated times, and a recipe of a tool that does not exist."""
    SimulatedMachine(lambda _: 1e-3).replace_real_one(monkeypatch)
    recipes = {"ORT dynamic": QUANTIZERS["ORT dynamic"], MISSING: Quantizer("ort", "", QUANTIZERS["NNCF"].load)}
    monkeypatch.setattr(quantized, "QUANTIZERS", recipes)


@pytest.mark.usefixtures("quick")
def test_comparison(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, told, shown = (model.with_name(name) for name in ("d.npz", "told.json", "page.html"))
    np.savez(data, x=X)
    options = QuantizationOptions(data=data, scheme="half", trials=1, min_time=0.01, threads=1, json=told, html=shown)
    report = compare_quantized(model, options, ["ort"])
    rows = {row.label: row for row in report.rows}
    assert list(rows) == ["original", "ORT dynamic", MISSING, "passwright"]
    assert rows[MISSING].outcome == "fails"
    assert rows[MISSING].failure
    assert rows["original"].bytes == model.stat().st_size
    for label in ("original", "ORT dynamic", "passwright"):
        row = rows[label]
        assert row.failure == ""
        assert row.score is not None
        assert row.measured is not None
        assert list(row.measured.latencies) == [1]
        assert row.measured.peak_bytes > 0
    entries = json.loads(told.read_text())["rows"]
    assert [entry["label"] for entry in entries] == list(rows)
    assert entries[0]["measured"]["latencies"]["1"]["throughput"] > 0
    page = shown.read_text(encoding="utf-8")
    cells = re.findall(r'<th scope="row" class="name">([^<]*)</th>', page)
    assert cells[: len(rows)] == list(rows)
    assert all(text in page for text in ("p99", "Size on disk", rows["passwright"].description, "fails"))
    assert "default-src 'none'" in page
    hostile = structs.replace(rows[MISSING], label="<img src=x>", failure="<img src=x>")
    assert "<img" not in page_html(describe(replace(report, source="<img src=x>", rows=[*report.rows, hostile])))
    Terminal().show(describe(replace(report, skipped={"nncf": "not installed"})))
    text = capsys.readouterr().out
    assert "within 1% of the agreement" in text
    assert "\N{HORIZONTAL ELLIPSIS}" not in text  # which a cell without room ends with
    assert all(part in text for part in ("ORT dynamic", "p99", "a second", "fails", "left out: nncf, not installed"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quantized", "--pipeline", "ort"], "--pipeline is not for a comparison with --quantized"),
        (["--quantized", "--keep", "made"], "--keep is not for a comparison with --quantized"),
        (["--data", "x.npz"], "--data is for a comparison with --quantized"),
        (["--time", "0"], "--time is for a comparison with --quantized"),
        (["--quantized", "--budget", "1"], "--budget 1: not of the form 1% (relative) or 0.5pt (absolute)"),
        (
            ["--quantized", "--tools", "olive"],
            "--tools olive: no optimizer has that name (there are ort, onnxsim, nncf)",
        ),
    ],
)
def test_options(arguments: Sequence[str], message: str, model: Path) -> None:
    result = invoke("compare", model, *arguments, code=USAGE)
    assert result.stderr == f"error: {message}\n"
