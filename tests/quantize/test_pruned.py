"""The schemes `pruned` and `low-rank`, in runs whose races go by sizes, and integers are fast."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from executable_documents import ROOT
from onnx import numpy_helper
from passwright.app.measure.metrics import ModelMetrics
from passwright.app.quantize import quantize as quantize_module
from passwright.app.quantize.document import comparison_rows, describe, summary_line
from passwright.app.quantize.quantize import OriginalRace, QuantizationResult
from passwright.app.quantize.schemes import AUTO, SHARES, Calibration, chosen_schemes, reduced_schemes
from passwright.app.quantize.search import RaceRatios
from passwright.app.report.page import page_html
from passwright.core.io.model_source import model_source
from passwright.core.support.confidence_intervals import RatioInterval
from passwright.passes.targets import QUANTIZATION_TARGETS
from rewriting import load

from passwright import quantize

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
DIGITS = ROOT / "golden_models" / "trained" / "digits_mlp.onnx"


def ratio(number: float) -> RatioInterval:
    return RatioInterval(number, number * 0.99, number * 1.01)


@pytest.fixture
def _races_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = OriginalRace.measure

    def by_size(racing: OriginalRace, models: Sequence[Path], _: Sequence[str]) -> list[RaceRatios]:
        sizes = [m.stat().st_size * (0.3 if b"QuantizeLinear" in m.read_bytes() else 0.9) for m in models]
        return [RaceRatios(ratio(size / racing.original.stat().st_size)) for size in sizes]

    def brief(racing: OriginalRace, models: Sequence[Path], _: Sequence[str] = ()) -> list[ModelMetrics]:
        return measure(racing, models, sets=1)

    monkeypatch.setattr(OriginalRace, "ratios", by_size)
    monkeypatch.setattr(OriginalRace, "measure", brief)
    monkeypatch.setattr(quantize_module, "latency_ratios", lambda *_: {1: ratio(0.5)})


def quantized(scheme: str, budget: str = "1%") -> QuantizationResult:
    data, labelled = (DIGITS.with_name(f"digits_mlp_{kind}.npz") for kind in ("calibration", "labelled"))
    return quantize(DIGITS, data=data, labelled=labelled, scheme=scheme, budget=budget, threads=1, min_time=0.01)


def weights(model: onnx.ModelProto) -> list[list[int]]:
    """The shapes of the matrices, in order."""
    return [list(numpy_helper.to_array(t).shape) for t in model.graph.initializer if len(t.dims) == 2]


@pytest.mark.usefixtures("_races_by_size")
def test_the_fewest_channels_within_the_budget_stay() -> None:
    result = quantized("pruned")
    report, trials = result.report, result.report.trials
    assert report.scheme == "pruned"
    scored = {t.variant: t.outcome for t in trials if "int8" not in t.variant and t.score is not None}
    outcomes = [scored.get(f"{share:g} of the multiplications", "") for share in SHARES]
    within = [not outcome.startswith("over the budget") for outcome in outcomes if outcome]
    assert within == sorted(within)
    assert len(within) < len(SHARES)  # others were between them
    taken = next(share for share, o in zip(SHARES, outcomes, strict=True) if o and not o.startswith("over the budget"))
    assert report.variant == f"{taken:g} of the multiplications"
    before, after = (weights(m) for m in (onnx.load(DIGITS), result.model))
    left = sum(a * b for a, b in after) / sum(a * b for a, b in before)
    assert report.multiplications == pytest.approx(left)
    assert report.multiplications <= taken
    assert sum(r.removed for r in report.removed) == sum(n for _, n in before) - sum(n for _, n in after)
    assert report.result.score is not None
    assert report.result.score.loss <= 0.01
    assert not report.float_ops
    assert not report.quantized


@pytest.mark.usefixtures("_races_by_size")
def test_the_best_scheme_of_fewer_bits_is_tried_on_the_pruned_model() -> None:
    report = quantized("static,pruned").report
    assert report.scheme == "pruned static"
    assert report.quantized
    assert report.multiplications < 1
    schemes = [t.scheme for t in report.trials]
    assert max(i for i, s in enumerate(schemes) if s == "static") < schemes.index("pruned static")
    sizes = {t.scheme: t.bytes for t in report.trials if t.outcome in {"taken", "within the budget"}}
    assert sizes["pruned static"] < sizes["static"]
    rows = {row[0]: row[1:] for row in comparison_rows(report)}
    assert rows["multiplications"] == ("1.00", f"{report.multiplications:.2f}", f"{report.multiplications - 1:+.1%}")
    assert f"{report.multiplications:.2f} of the multiplications left" in summary_line(report)
    page, data = page_html(describe(report)), json.loads(report.to_json())
    assert data["removed"] == [{"value": r.value, "removed": r.removed, "channels": r.channels} for r in report.removed]
    assert all(f">{r.value}<" in page for r in report.removed)


@pytest.mark.usefixtures("_races_by_size")
def test_the_best_scheme_of_fewer_bits_is_tried_on_the_model_of_low_rank() -> None:
    result = quantized("static,low-rank")
    report, (before, after) = result.report, (weights(m) for m in (onnx.load(DIGITS), result.model))
    assert report.scheme == "low-rank static"
    assert report.quantized
    assert len(report.trials) < 60  # none is made again and again because it is more accurate than its stored weights
    assert len(after) == len(before) + len(report.ranks)
    left = sum(a * b for a, b in after) / sum(a * b for a, b in before)
    assert report.multiplications == pytest.approx(left)
    assert left < 0.9
    assert f"{len(report.ranks)} layer" in summary_line(report)
    page, data = page_html(describe(report)), json.loads(report.to_json())
    assert data["ranks"] == [{"value": r.value, "rank": r.rank, "full": r.full} for r in report.ranks]
    assert all(f">{r.value}<" in page for r in report.ranks)


def test_auto_tries_low_rank_only_where_pruning_removes_nothing() -> None:
    """It does where a norm is over the channels, and by name everywhere."""
    random = np.random.default_rng(0)
    constants = {
        name: random.normal(size=dims).astype(np.float32)
        for name, dims in {"u": (32, 64), "s": 64, "v": (64, 32)}.items()
    }
    feeds = [{"x": random.normal(size=(1, 32)).astype(np.float32)} for _ in range(60)]
    for between, names in {"LayerNormalization(a, s)": (AUTO, "low-rank"), "Add(a, s)": ("low-rank",)}.items():
        text = f"g (float[N,32] x) => (float[N,32] y) {{ a = MatMul(x, u) r = {between} y = MatMul(r, v) }}"
        source = model_source(load(text, opset=21, weights=constants), inline=True)
        spec, calibration = QUANTIZATION_TARGETS["portable"].spec({}), Calibration(source, feeds)
        tried = {n: chosen_schemes(n, source, calibration, spec)["low-rank"][0][1](None) for n in (AUTO, "low-rank")}
        assert {n for n, builder in tried.items() if builder is not None} == {*names}


def test_the_least_possible_share_is_tried_once() -> None:
    """The two products that share their weights stay as they are, so that two thirds of the multiplications do."""
    random = np.random.default_rng(0)
    constants = {name: random.normal(size=(64, 64)).astype(np.float32) for name in "uv"}
    layers = "a = MatMul(x, u) r = Relu(a) b = MatMul(r, v) s = Relu(b) y = MatMul(s, v)"
    source = model_source(load(f"g (float[N,64] x) => (float[N,64] y) {{ {layers} }}", weights=constants), inline=True)
    feeds = [{"x": random.normal(size=(1, 64)).astype(np.float32)} for _ in range(100)]
    spec, calibration = QUANTIZATION_TARGETS["portable"].spec({}), Calibration(source, feeds)
    built = [variant(None) for _, variant in chosen_schemes("low-rank", source, calibration, spec)["low-rank"]]
    tried = [share for share, builder in zip(SHARES, built, strict=True) if builder is not None]
    assert tried == [0.2, 0.8, 0.9]


def test_gptq_makes_no_model_with_another_share_of_the_multiplications() -> None:
    """It rounds the weights of the best candidate, and is tried before larger models."""
    random = np.random.default_rng(0)
    constants = {name: random.normal(size=(32, 32)).astype(np.float32) for name in "uvw"}
    layers = "a = MatMul(x, u) r = Relu(a) b = MatMul(r, v) s = Relu(b) y = MatMul(s, w)"
    text = f"g (float[N,32] x) => (float[N,32] y) {{ {layers} }}"
    source = model_source(load(text, opset=21, weights=constants), inline=True)
    feeds = [{"x": random.normal(size=(1, 32)).astype(np.float32)} for _ in range(60)]
    spec, calibration = QUANTIZATION_TARGETS["portable"].spec({}), Calibration(source, feeds)
    found: list[Any] = []
    for scheme in ("pruned", "static"):
        (_, variant), *_ = chosen_schemes(scheme, source, calibration, spec)[scheme]
        found.append(SimpleNamespace(builder=variant(None)))
    (first, make), *others = reduced_schemes(calibration, found)["pruned static"]
    best = SimpleNamespace(builder=make(None), trial=SimpleNamespace(variant=first))
    known = set(calibration._reduced)
    assert [variant(best) for name, variant in others[1:] if name.endswith("GPTQ")] == [None] * (len(SHARES) - 1)
    assert set(calibration._reduced) == known


@pytest.mark.usefixtures("_races_by_size")
def test_original_is_kept_where_no_share_is_within_the_budget(tmp_path: Path) -> None:
    """Of random products without channels to spare, each loses more than a billionth."""
    random = np.random.default_rng(0)
    constants = {name: random.normal(size=dims).astype(np.float32) for name, dims in {"u": (8, 8), "v": (8, 8)}.items()}
    model = load(
        "g (float[N,8] x) => (float[N,8] y) { a = MatMul(x, u) r = Tanh(a) y = MatMul(r, v) }", weights=constants
    )
    onnx.save(model, tmp_path / "m.onnx")
    data = [{"x": random.normal(size=(1, 8)).astype(np.float32)} for _ in range(60)]
    report = quantize(
        tmp_path / "m.onnx", data=data, scheme="pruned", budget="0.0000001%", threads=1, min_time=0.01
    ).report
    assert report.is_original
    assert report.multiplications == 1
    assert {t.outcome for t in report.trials} == {"over the budget"}
    whole = load("g (float[N,8] x) => (float[N,8] y) { y = MatMul(x, u) }", weights={"u": constants["u"]})
    onnx.save(whole, tmp_path / "w.onnx")
    (trial,) = quantize(tmp_path / "w.onnx", data=data, scheme="pruned", threads=1, min_time=0.01).report.trials
    assert trial.outcome == "it changes no op"
