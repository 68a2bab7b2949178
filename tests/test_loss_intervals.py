"""Tests for the confidence intervals of losses of accuracy."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.measure.accuracy import figures_of_parts, jackknife_interval, load_metric
from passwright.app.measure.agreement import INTERVAL, Score
from passwright.app.measure.ready_metrics import METRICS
from passwright.core.support.confidence_intervals import share_interval

from passwright import verify


def _model(weights: np.ndarray[Any, Any]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> g (float[N,8] x) => (float[N,4] y) { y = MatMul(x, w) }'
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights.astype(np.float32), "w"))
    return model


def _labelled(path: Path, weights: np.ndarray[Any, Any], rows: int) -> str:
    x = np.random.default_rng(1).normal(size=(rows, 8)).astype(np.float32)
    np.savez(path, x=x, labels=(x @ weights.astype(np.float32)).argmax(1))
    return str(path)


@pytest.mark.parametrize(("rows", "changed"), [(1000, 0.02), (300, 0.05)])
def test_interval_contains_the_loss_of_all_samples(rows: int, changed: float) -> None:
    numbers, contained, lengths = np.random.default_rng(0), 0, list[float]()
    for _ in range(100):
        labels = numbers.integers(0, 10, rows)
        scores = np.eye(10)[labels]
        others = np.where((numbers.random(rows) < changed)[:, None], np.roll(scores, 1, 1), scores)
        whole = 1 - METRICS["top1"]({"y": others}, labels)
        parts = [1 - figure for figure in figures_of_parts(METRICS["top1"], {"y": others}, labels)]
        low, high = jackknife_interval(whole, parts) or (1, 0)
        contained += low <= changed <= high
        lengths.append(high - low)
    assert contained >= 88  # 95 on average, with a standard deviation of 2.2
    assert np.mean(lengths) == pytest.approx(4 * (changed * (1 - changed) / rows) ** 0.5, rel=0.2)


def test_figures_of_parts_need_rows_and_a_figure_of_each_part() -> None:
    labels = np.arange(40) % 2
    assert len(figures_of_parts(METRICS["top1"], {"y": np.eye(2)[labels]}, labels)) == 20
    assert figures_of_parts(METRICS["top1"], {"y": np.eye(2)[labels], "z": np.zeros(3)}, labels) == []
    assert figures_of_parts(METRICS["top1"], {"y": np.eye(2)[labels[:2]]}, labels[:2]) == []
    single = np.array([1.0, *np.zeros(39)])  # without the first row, all labels are the same
    assert figures_of_parts(METRICS["r2"], {"y": single}, single) == []


def test_a_metric_of_a_file_may_have_no_figure_of_a_part(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        "def metric(outputs, labels):\n    return outputs['y'][labels == 1].sum() / [0, 1][int(labels.any())]\n"
    )
    single = np.array([1, *np.zeros(39, int)])
    assert load_metric(str(file))({"y": np.ones(40)}, single) == 1
    assert figures_of_parts(load_metric(str(file)), {"y": np.ones(40)}, single) == []


def test_share_interval_is_that_of_wilson() -> None:
    assert share_interval(0, 100) == pytest.approx((0.0, 0.037), abs=1e-3)
    assert share_interval(10, 100) == pytest.approx((0.0552, 0.1744), abs=1e-3)
    assert share_interval(100, 100) == pytest.approx((0.963, 1.0), abs=1e-3)


def test_loss_text_has_the_unit_of_the_budget() -> None:
    assert Score(0.9, 0.002, interval=(-0.006, 0.01)).loss_text("1%") == "0.2% (-0.6% to 1%)"
    assert Score(0.9, 0.002).loss_text("0.5pt") == "0.2pt"
    assert Score(0.9, 0.0, interval=(-0.01, 0.01)).loss_text("1%") == "0% (-1% to 1%)"
    assert not Score(0.9, 0.0).loss_text("1%")


def test_losses_on_labelled_rows_have_an_interval(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(8, 4))
    labelled = _labelled(tmp_path / "rows.npz", weights, 200)
    report = verify(_model(weights), _model(weights.round(1)), budget="5%", labelled=labelled)
    assert report.accuracy is not None
    low, high = report.accuracy.score.interval or (1, 0)
    assert low < report.accuracy.score.loss < high < 0.1
    lost = report.accuracy.score.loss_text("5%", INTERVAL)
    assert f"a loss of {lost}" in report.accuracy.figure_text


def test_equal_figures_have_an_interval_unless_outputs_are_equal(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(8, 4))
    labelled = _labelled(tmp_path / "rows.npz", weights, 100)
    near = verify(_model(weights), _model(weights * 1.001), budget="1%", labelled=labelled).accuracy
    same = verify(_model(weights), _model(weights), budget="1%", labelled=labelled).accuracy
    assert near is not None
    assert same is not None
    assert near.score.interval == pytest.approx((-0.037, 0.037), abs=1e-3)
    assert same.score.interval == (0.0, 0.0)


def test_agreement_of_classes_has_the_interval_of_a_share(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(8, 4))
    inputs = {"x": np.random.default_rng(1).normal(size=(100, 8)).astype(np.float32)}
    found = verify(_model(weights), _model(weights.round(1)), budget="5%", metric="top1", inputs=inputs).accuracy
    assert found is not None
    assert found.score.interval == share_interval(round(100 * found.score.loss), 100)
