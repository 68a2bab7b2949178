"""`quantize` in other engines: their precisions as schemes, and where candidates are timed and scored."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.measure.tuned_settings import Recipe
from passwright.app.quantize.document import describe
from passwright.app.report.page import page_html
from passwright.core.errors import UsageError
from passwright.testing.rewriting import load
from simulated_races import SimulatedMachine

from passwright import quantize, tune

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
INEXACT = str(Path(__file__).parent.with_name("inexact_engine.py"))
TEXT = "g (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}> { a = Relu(x) y = Mul(a, w) }"


def quantized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: dict[str, float], **options: Any) -> Any:
    """The result and the machine, on which a precision has its time."""
    path = tmp_path / "m.onnx"
    onnx.save(load(TEXT, 17), path)
    machine = SimulatedMachine(lambda target: times[target.config.precision]).replace_real_one(monkeypatch)
    return quantize(path, **{"engine": INEXACT, "min_time": 0.01, "threads": 1, **options}), machine


def test_precision_is_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest precision within the budget is taken, and the model stays as it is."""
    times = {"f32": 1.0, "bf16": 0.6, "f8": 0.4}
    result, machine = quantized(tmp_path, monkeypatch, times, scheme="bf16,f8", metric="snr")
    report = result.report
    assert (report.scheme, report.precision, report.engine, report.quantized) == ("bf16", "bf16", INEXACT, [])
    assert result.model == onnx.load(tmp_path / "m.onnx")
    assert report.result.ratios[1].ratio == pytest.approx(0.6, rel=0.05)
    assert {t.scheme: t.outcome for t in report.trials} == {"bf16": "taken", "f8": "over the budget"}
    assert report.result.score.snr == pytest.approx(60, rel=0.01)
    assert {t.config.engine for race in machine.races for t in race} == {INEXACT}
    assert [t.config.precision for t in machine.races[-1]] == ["f32", "bf16"]
    page = page_html(describe(report))
    for text in ("original, inexact_engine.py", "result, inexact_engine.py:bf16", "the result in bf16"):
        assert text in page
    assert "ORT ALL" not in page


def test_precision_that_is_slower_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = quantized(tmp_path, monkeypatch, {"f32": 1.0, "bf16": 1.2}, scheme="bf16")[0].report
    assert (report.is_original, report.precision) == (True, "f32")
    assert [t.outcome for t in report.trials] == ["slower"]


def test_named_precision_is_the_precision_of_all_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"engine": f"{INEXACT}:bf16", "scheme": "half-weights,bf16"}
    result, machine = quantized(tmp_path, monkeypatch, {"f32": 1.0, "bf16": 0.6}, **options)
    assert {t.scheme for t in result.report.trials} == {"half-weights", "bf16"}
    assert {t.config.precision for race in machine.races for t in race[1:]} == {"bf16"}
    assert {race[0].config.precision for race in machine.races} == {"f32"}
    with pytest.raises(UsageError, match="scheme f8: choose from auto, static"):
        quantized(tmp_path, monkeypatch, {}, **{**options, "scheme": "f8"})
    with pytest.raises(UsageError, match="scheme bf16: choose from auto, static"):
        quantized(tmp_path, monkeypatch, {}, engine="onnxruntime", scheme="bf16")
    with pytest.raises(UsageError, match="int8_cache: GroupQueryAttention is an operator of onnxruntime, not of"):
        quantized(tmp_path, monkeypatch, {}, engine=INEXACT, int8_cache=True)


def test_precision_for_quantized_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A precision of quantized weights is a scheme that quantizes them as another scheme does, and tune tries both."""
    engine, model = tmp_path / "weighted.py", tmp_path / "w.onnx"
    source = Path(INEXACT).read_text().replace('"f8": 0.3', '"i8": 1e-4')
    engine.write_text(source.replace("tuple(ERRORS)", 'tuple(ERRORS), weight_schemes={"i8": "weights8"}'))
    message = load("g (float[N,256] x) => (float[N,256] y) <float[256,256] w> { a = MatMul(x, w) y = Relu(a) }", 20)
    del message.graph.initializer[:]
    weights = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32)
    message.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(message, model)
    times = {"f32": 1.0, "bf16": 0.6, "i8": 0.4}
    SimulatedMachine(lambda target: times[target.config.precision]).replace_real_one(monkeypatch)
    options: dict[str, Any] = {"min_time": 0.04, "threads": 1}
    report = quantize(model, engine=str(engine), scheme="bf16,i8", **options).report
    assert (report.scheme, report.precision) == ("i8", "i8")
    assert report.result.bytes < 0.3 * report.original.bytes
    options |= {
        "engine": [str(engine)],
        "budget": "1%",
        "scheme": "half-weights",
        "pipeline": ["none"],
        "dim": {"N": [1]},
    }
    result = tune(model, verify="quick", **options)
    found = result.report
    assert found.configuration.recipe == Recipe(scheme="i8")
    assert (found.configuration.session.precision, found.scheme) == ("i8", "i8")
    assert found.result.bytes < 0.3 * found.original.bytes
    with pytest.raises(UsageError, match=f"passes quantize --scheme i8 --engine {engine}` makes it"):
        result.settings.recipe  # noqa: B018 - it raises
