"""The trained models: their accuracy in onnxruntime, and the metrics."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.measure.accuracy import LabelledSet, load_metric
from passwright.app.measure.bench import figures_of
from passwright.app.measure.ready_metrics import Metric
from passwright.core.io.model_source import model_source
from passwright.core.ort.sessions import SessionConfig

FOLDER = Path(__file__).parent.parent / "golden_models" / "trained"
MODELS = sorted(FOLDER.glob("*.onnx"))
METRICS = FOLDER / "metrics.py"


def metric(name: str) -> Metric:
    return load_metric(f"{METRICS}:{name}" if name else "")


def test_both_digit_models_are_there() -> None:
    assert [path.stem for path in MODELS] == ["digits_cnn", "digits_mlp"]


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_accuracy_is_that_of_the_recipe(path: Path) -> None:
    facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    labelled = LabelledSet.read(FOLDER / f"{path.stem}_labelled.npz")
    metrics = [metric(facts["metric"])]
    (found,) = figures_of(model_source(path, inline=False), SessionConfig(), labelled, metrics)
    assert found == pytest.approx(facts["float32"], abs=2e-3)
    assert found >= 0.97


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_sets_are_small_and_disjoint(path: Path) -> None:
    files = sorted(FOLDER.glob(f"{path.stem}*"))
    assert [file.name.removeprefix(path.stem) for file in files] == [
        ".json", ".onnx", "_calibration.npz", "_labelled.npz",
    ]  # fmt: skip
    assert sum(file.stat().st_size for file in files) < 300_000
    (value,) = onnx.load(path).graph.input
    calibration, labelled = (np.load(file)[value.name] for file in files[2:])
    assert not {row.tobytes() for row in calibration} & {row.tobytes() for row in labelled}


def one_hot(classes: list[int], count: int) -> np.ndarray[Any, Any]:
    return np.eye(count, dtype=np.float32)[classes]


def test_characters() -> None:
    """CTC drops repetitions and blanks; of seven true characters, one is wrong and one is missing."""
    scores = np.stack([one_hot([0, 1, 1, 0, 1, 2, 3, 0], 5), one_hot([0, 3, 3, 4, 0, 0, 0, 0], 5)])
    labels = np.array([[1, 1, 2, 3], [3, 1, 2, 0]])
    assert metric("characters")({"scores": scores}, labels) == pytest.approx(1 - 2 / 7)


def test_area_under_curve() -> None:
    scores, labels = np.array([[0.1], [0.4], [0.4], [0.9]]), np.array([0, 0, 1, 1])
    assert metric("area_under_curve")({"speech_probs": scores}, labels) == 3.5 / 4


def test_partner_rank() -> None:
    """Two pairs: of the two other rows 2, 1, 0 and 2 are further from a row than its partner."""
    angles = np.radians([0, 20, 35, 80])
    vectors = np.stack([np.cos(angles), np.sin(angles)], 1)
    assert metric("partner_rank")({"embedding": vectors}, np.array([0, 0, 1, 1])) == pytest.approx(5 / 2 / 4)
    assert metric("partner_rank")({"embedding": vectors}, np.array([0, 0, 1, 2])) == pytest.approx(3 / 2 / 2)


def test_nearest_neighbour() -> None:
    vectors = np.array([[1, 0], [2, 0.1], [0, 1], [0.5, 1.0]]).reshape(4, 1, 2)
    assert metric("nearest_neighbour")({"embedding": vectors}, np.array([0, 0, 1, 0])) == 0.5


def test_pixels() -> None:
    """Two pixels found, one of them right, one missed."""
    scores, labels = np.array([[0.9, 0.4], [0.3, 0.0]]), np.array([[True, False], [True, False]])
    assert metric("pixels")({"mask": scores[None, None]}, labels[None]) == 0.5


def yolo(*boxes: tuple[float, ...]) -> np.ndarray[Any, Any]:
    """Anchors with a centre, a size and the scores of two classes."""
    return np.array(boxes, np.float32).T


def test_average_precision() -> None:
    """Of the first class, by score: right, wrong, wrong, right, of three objects; of the second class, right."""
    found = yolo(
        (10, 10, 10, 10, 0.9, 0), (17, 10, 10, 10, 0.8, 0), (30, 90, 10, 10, 0.6, 0.1), (80, 80, 10, 10, 0.2, 0),
        (50, 50, 20, 20, 0, 0.7), (10, 90, 10, 10, 0.001, 0),
    )  # fmt: skip
    labels = np.array([[0, 5, 5, 15, 15], [1, 40, 40, 60, 60], [0, 75, 75, 85, 85], [0, 5, 85, 15, 95], [-1] * 5])
    expected = ((1 + 2 / 4) / 3 + 1) / 2
    assert metric("average_precision")({"output0": found[None]}, labels[None]) == pytest.approx(expected)
    assert metric("average_precision")({"output0": found[None, :, :0]}, labels[None]) == 0


def test_agreement() -> None:
    """The mean of each number explains nothing; a number that does not vary is no division by 0."""
    labels = np.array([[1.0, 5, 7], [3, 9, 7]])
    assert metric("agreement")({"y": labels}, labels) == 1
    assert metric("agreement")({"y": np.array([[2.0, 7, 7], [2, 7, 7]])}, labels) == 0
    assert metric("agreement")({"y": labels + np.array([1, 0, 0])}, labels) == pytest.approx(1 - 2 / 10)


def test_tags() -> None:
    """From scores or classes; negative labels do not count."""
    labels = np.array([[2, 0, -1], [1, -1, -1]])
    classes = np.array([[2, 1, 1], [1, 0, 0]])
    assert metric("tags")({"y": classes}, labels) == pytest.approx(2 / 3)
    assert metric("tags")({"y": np.eye(3)[classes]}, labels) == pytest.approx(2 / 3)


def test_pitches() -> None:
    """Half a semitone is 2.9 %."""
    assert metric("pitches")({"y": np.array([[440.0, 452, 453, 0]])}, np.array([[440.0, 440, 440, 440]])) == 0.5
    scores = one_hot([10, 12, 13], 360)
    assert metric("pitch_bins")({"y": scores}, np.array([10, 10, 10])) == pytest.approx(2 / 3)
    assert metric("pitch_bins")({"y": scores}, np.array([10, 10, -1])) == 1


def test_average_precision_of_other_outputs() -> None:
    """Coefficients of masks are no classes; a YOLOX has places in cells of 8, 16 and 32 pixels."""
    labels = np.array([[[0, 40, 24, 56, 40]]], np.float32)
    masks = np.array([[[48], [32], [16], [16], [0.9], [5], [-3]]], np.float32)
    assert metric("average_precision_one_class")({"y": masks}, labels) == 1
    cells = np.zeros((1, 3549, 6), np.float32)
    cells[0, 52**2 + 2 * 26 + 3] = [0, 0, 0, 0, 1, 0.9]  # the fourth cell in the third row of those of 16 pixels
    assert metric("average_precision_yolox")({"y": cells}, labels) == 1
    cells[0, 52**2 + 2 * 26 + 3, 2] = 2  # 118 pixels wide
    assert metric("average_precision_yolox")({"y": cells}, labels) == 0
