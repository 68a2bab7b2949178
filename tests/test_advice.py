"""`passes advise`: techniques raced on a model, those that were not, and what to type."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from passwright.app.cli.entry import app
from passwright.app.tune.advice import GAIN, IMPOSSIBLE, INCONCLUSIVE, NO_GAIN, NOT_TRIED, SLOWER, measured_advice
from passwright.app.tune.racing import RaceEntry
from passwright.app.tune.search import LIMITED, RaceTrial
from passwright.core.support.confidence_intervals import RatioInterval
from rewriting import each, load
from typer.testing import CliRunner

from passwright import advise

MODEL = "g (float[1,64] x) => (float[1,64] y) { a = MatMul(x, w) b = Identity(a) y = Relu(b) }"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    found = load(MODEL)
    found.graph.initializer.append(numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    onnx.save(found, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def raced(ratio: RatioInterval) -> RaceEntry:
    return RaceEntry("", ratio, ratio, bytes=7)


@each(
    ("trial", "outcome"),
    {
        "faster": (RaceTrial("pipelines", "pipeline: ort", "", raced(RatioInterval(0.8, 0.7, 0.9)), 0.8), GAIN),
        "slower": (RaceTrial("pipelines", "pipeline: ort", "", raced(RatioInterval(1.2, 1.1, 1.3)), 1.2), SLOWER),
        "equal": (RaceTrial("pipelines", "pipeline: ort", "", raced(RatioInterval(1, 0.98, 1.02)), 1.0), NO_GAIN),
        "noisy": (
            RaceTrial("pipelines", "pipeline: ort", "", raced(RatioInterval(0.7, 0.4, 1.6, True)), 0.7),
            INCONCLUSIVE,
        ),
        "late": (RaceTrial("pipelines", "pipeline: ort", LIMITED), NOT_TRIED),
        "invalid": (RaceTrial("engines", "engine: openvino:f16", "invalid: it has no f16"), IMPOSSIBLE),
    },
)
def test_outcomes(trial: RaceTrial, outcome: str) -> None:
    found = measured_advice(trial, "technique", "command")
    assert found.outcome == outcome
    assert (found.time is None) == (outcome in {NOT_TRIED, IMPOSSIBLE})


def test_a_chain_of_races_counts_from_the_original_on() -> None:
    """0.5 of what was taken before, which takes 0.4 of the time of the original."""
    trial = RaceTrial("sessions", "intra-op threads: 1", "", raced(RatioInterval(0.5, 0.4, 0.6)), 0.2)
    time = measured_advice(trial, "threads", "").time
    assert time is not None
    assert (time.ratio, time.low, time.high) == pytest.approx((0.2, 0.16, 0.24))


@each("seconds", ["0", "10"])
def test_advice_names_what_was_raced_and_what_is_missing(seconds: str, model: Path, tmp_path: Path) -> None:
    report = tmp_path / "advice.json"
    options = f"--time {seconds} --threads 1 --engine onnxruntime --json {report}"
    result = CliRunner().invoke(app, ["advise", str(model), *options.split()])
    assert result.exit_code == 0, result.output
    found = json.loads(report.read_text())
    by_name = {a["technique"]: a for a in found["advice"]}
    assert by_name["graph optimization"]["command"] == f"passes run {model} -o out.onnx"
    assert by_name["quantization: dynamic"]["command"] == f"passes quantize {model} -o out.onnx --scheme dynamic"
    assert "typical inputs" in by_name["quantization: static"]["reason"]
    assert by_name["batches"]["command"] == f"passes run {model} -o any.onnx --batch batch"
    assert found["command"] in " ".join(result.output.split())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["advice.json", "m.onnx"], "nothing else is written"
    is_unmeasured = all(a["time"] is None for a in found["advice"])
    assert ("no technique was measured within the time limit" in result.output) == is_unmeasured


def test_commands_name_all_data(model: Path, tmp_path: Path) -> None:
    files = [tmp_path / "a b.npz", tmp_path / "c.npz"]
    for file in files:
        np.savez(file, x=np.ones((4, 1, 64), np.float32))
    found = advise(model, data=[str(f) for f in files], time=0, threads=1, engine=())
    by_name = {a.technique: a.command for a in found.advice}
    typed = ["--data", str(files[0]), "--data", str(files[1])]
    assert shlex.split(by_name["quantization: static"])[-4:] == typed
    assert shlex.split(found.command)[-4:] == typed
