"""Metrics by name, against values computed by hand."""

import sys
from typing import Any

import numpy as np
import pytest
from passwright.app.measure.accuracy import load_metric
from passwright.core.errors import ModelError, UsageError
from rewriting import each

SCORES = np.array([[6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6], [0, 0, 0, 0, 0, 0]], np.float32)
LOGITS = np.log(np.array([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], [[0.6, 0.3, 0.1], [0.2, 0.4, 0.4]]], np.float32))
TOKENS = np.array([[0, 1], [-100, 2]])
"""Behind each token: probabilities of 0.5, 0.1 and 0.4, of which the first is the best of all."""
CTC = np.eye(4, dtype=np.float32)[[[0, 1, 1, 0, 1, 2], [3, 3, 0, 0, 0, 2]]]
VOCABULARY = np.array(["", "ab", " ", "c"])


def figure(metric: str, outputs: Any, labels: Any, **arrays: Any) -> float:
    if metric in {"wer", "map"}:
        pytest.importorskip({"wer": "jiwer", "map": "pycocotools"}[metric])
    given = outputs if isinstance(outputs, dict) else {"y": np.asarray(outputs)}
    return load_metric(metric, np.asarray(labels), arrays)(given, np.asarray(labels))


@each(
    ("metric", "outputs", "labels", "wanted"),
    [
        ("top1", SCORES, [0, 4, 0], 2 / 3),
        ("top1", SCORES, np.eye(6)[[0, 4, 0]], 2 / 3),
        ("top5", SCORES, [4, 0, 4], 2 / 3),  # of equal scores, the first are before others
        ("top5", SCORES, [5, 1, 5], 1 / 3),
        ("top5", SCORES, np.eye(6)[[4, 0, 4]], 2 / 3),
        ("top5", np.where(SCORES == 6, np.nan, SCORES), [1, 1, 1], 1 / 3),
        ("r2", [[1.0, 10], [2, 20], [4, 30]], [[1.0, 10], [2, 20], [3, 30]], 1 - (1 / 2) / 2),
        ("r2", [[1.0], [2], [4]], [1.0, 2, 3], 0.5),
        ("snr", [1.0, 2.0, 2.0], [1.0, 2.0, 3.0], 10 * np.log10(14)),
        ("tokens", LOGITS, TOKENS, 1 / 3),
        ("perplexity", LOGITS, TOKENS, (0.5 * 0.1 * 0.4) ** (-1 / 3)),
        ("perplexity", 1000 + LOGITS, TOKENS, (0.5 * 0.1 * 0.4) ** (-1 / 3)),
        ("loss", 1000 + LOGITS, TOKENS, -np.log(0.5 * 0.1 * 0.4) / 3),
        ("loss", np.exp(LOGITS), TOKENS, -np.log(0.5 * 0.1 * 0.4) / 3),  # probabilities are taken as they are
        ("loss", np.exp(LOGITS), np.eye(3)[[[0, 1], [2, 2]]], -np.log(0.5 * 0.1 * 0.1 * 0.4) / 4),
        ("loss", [[0.5, 0.25], [1, 0]], [1, 1], np.log(1 + np.exp([0.25, 1])).mean()),  # no sums of 1: logits
        ("loss", {"class": np.array([1]), "p": np.array([[1, 0]], np.float32)}, [1], -np.log(2**-23)),
    ],
)
def test_values(metric: str, outputs: Any, labels: Any, wanted: float) -> None:
    assert figure(metric, outputs, labels) == pytest.approx(wanted, rel=1e-4)


@each(
    ("outputs", "labels", "vocabulary", "wanted"),
    [
        (["a b c d", "x"], ["a x c", "x"], None, 1 - 2 / 4),  # substituted, inserted
        ([["a b"], [""]], ["a b", "c"], None, 1 - 1 / 3),  # removed
        ([[4, 5, 6], [7, -1, -1]], [[4, 5], [7, 8]], None, 1 - 2 / 4),
        (CTC, [[1, 1, 2], [3, 2, 0]], None, 1.0),
        (CTC, [[1, 2, 0], [3, 3, 2]], None, 1 - 2 / 5),
        (np.where(CTC == 1, np.nan, CTC), [[1, 2], [3, 2]], None, 0.0),
        (CTC, ["abab", "c"], VOCABULARY, 1.0),
        (CTC, ["abab c", "c"], VOCABULARY, 1 - 1 / 3),
        ([[1, 3], [1, 3]], ["abc", "ab"], VOCABULARY, 0.5),
    ],
)
def test_words(outputs: Any, labels: Any, vocabulary: Any, wanted: float) -> None:
    """Each token counts as a word without a vocabulary."""
    texts = np.asarray(outputs, object) if isinstance(outputs[0], str) or isinstance(outputs[0][0], str) else outputs
    arrays = {} if vocabulary is None else {"vocabulary": vocabulary}
    assert figure("wer", np.asarray(texts), labels, **arrays) == pytest.approx(wanted)


BOXES = np.array([[[0, 0, 0, 10, 10], [0, 20, 20, 40, 40]], [[1, 0, 0, 10, 10], [-1, 0, 0, 0, 0]]], np.float64)
FOUND = np.array([[[0, 0, 10, 10, 0.9, 0], [50, 50, 60, 60, 0.1, 0]], [[0, 0, 10, 8, 0.8, 1], [0] * 6]], np.float32)
HALF = 51 / 101  # recall 0, 0.01 ... 0.5 of the first class has precision 1, the rest 0
OVERLAP = 0.7  # an overlap of 0.8 counts for 0.50, 0.55 ... 0.80, seven of ten


def test_precision_of_boxes() -> None:
    wanted = (HALF + OVERLAP) / 2
    assert figure("map", {"found": FOUND}, BOXES) == pytest.approx(wanted, abs=1e-6)
    ragged = {"found": [row[row[:, 4] > 0] for row in FOUND]}
    assert figure("map", ragged, BOXES) == pytest.approx(wanted, abs=1e-6)
    apart = {"b": FOUND[..., :4], "s": FOUND[..., 4], "c": FOUND[..., 5].astype(np.int64)}
    assert figure("map", apart, BOXES) == pytest.approx(wanted, abs=1e-6)
    assert figure("map", {"found": FOUND * 0}, BOXES) == 0.0
    for column in range(FOUND.shape[-1]):
        damaged = FOUND.copy()
        damaged[..., column] = np.nan
        assert figure("map", {"found": damaged}, BOXES) == 0.0, column


@each(
    ("metric", "outputs", "labels", "message"),
    [
        ("top5", SCORES[:, :5], [0, 1, 2], "there are only 5 classes, so all are in the top five"),
        ("top5", SCORES, [0, 1], "the labels have shape [2]; it needs [3] for y of [3, 6]"),
        ("top5", SCORES, [0, 1, 6], "label 6 is beyond the 6 scores of y"),
        ("top5", SCORES, [0, 1, -1], "label -1 is not a class"),
        ("top5", SCORES, [0.0, 1, 0.5], "the labels are float64; it needs integers"),
        ("top5", SCORES.argmax(1), [0, 1, 1], "y of shape (3,) does not score classes"),
        ("r2", SCORES, [0.5, 1, 2], "the labels have shape [3]; it needs the shape of y, [3, 6]"),
        ("r2", SCORES[:, 0], [0.5, 0.5, 0.5], "number 0 is the same in all labels: R2 is not defined"),
        ("r2", SCORES[:, 0], ["a", "b", "c"], "y is float32, the labels <U1; it needs numbers"),
        ("snr", SCORES[:, 0], [0.0, 0, 0], "the labels are all 0"),
        ("tokens", LOGITS, TOKENS * 0 - 1, "all labels are negative, which means that there is no class"),
        ("loss", SCORES.argmax(1), [0, 1, 1], "y of shape (3,) does not score classes"),
        ("loss", SCORES[:, :0], [0, 1, 1], "y of shape (3, 0) does not score classes"),
        ("loss", SCORES, [0, 1, 6], "label 6 is beyond the 6 scores of y"),
        ("perplexity", LOGITS, TOKENS[:, :1], "the labels have shape [2, 1]; it needs [2, 2] for y of [2, 2, 3]"),
    ],
)
def test_mistakes(metric: str, outputs: Any, labels: Any, message: str) -> None:
    require_message(metric, outputs, labels, message)


def require_message(metric: str, outputs: Any, labels: Any, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        figure(metric, outputs, labels)
    assert str(caught.value).startswith(f"--metric {metric}: {message}")
    assert "\n" not in str(caught.value)


@each(
    ("outputs", "labels", "message"),
    [
        (CTC, ["ab", "c"], "y has tokens, and the labels are texts, so the set needs an array vocabulary"),
        (CTC, [[0], [0]], "the labels contain no words"),
        (CTC[0], [[1]] * 6, "y is float32 of [6, 4]; it needs texts, tokens [rows, length] or scores"),
        (CTC[..., :0], [[1], [2]], "y is float32 of [2, 6, 0]; it needs texts, tokens [rows, length] or scores"),
        (np.zeros((2, 0), "U1"), ["ab", "c"], "y is <U1 of [2, 0]; it needs texts, tokens [rows, length] or scores"),
        (CTC, [[1.5], [2.0]], "the labels are float64; it needs texts or tokens"),
        (CTC, [[1]], "y has 2 rows, the labels have 1"),
        (np.array(["a", "b"], object), [["a", "b"], ["c", "d"]], "the labels have shape [2, 2]; it needs a text for"),
    ],
)
def test_mistakes_with_words(outputs: Any, labels: Any, message: str) -> None:
    require_message("wer", outputs, labels, message)


@each(
    ("outputs", "labels", "message"),
    [
        (FOUND, BOXES[..., :4], "the labels are float64 of [2, 2, 4]; it needs numbers [rows, boxes, 5]"),
        (FOUND, BOXES * 0 - 1, "the labels contain no boxes"),
        (FOUND, BOXES[:1], "there are detections for 2 rows, and labels for 1"),
        (FOUND, np.where(BOXES == 40, np.inf, BOXES), "the labels contain numbers that are not finite"),
        (
            {"b": FOUND[..., :4], "s": FOUND[:, :1, 4], "c": FOUND[..., 5].astype(np.int64)},
            BOXES,
            "the outputs have different numbers of boxes, scores and classes",
        ),
        (FOUND.astype(str), BOXES, "the outputs are y of [2, 6] for a row; it needs one [rows, boxes, 6], or boxes"),
        (SCORES, BOXES, "the outputs are y of [6] for a row; it needs one [rows, boxes, 6], or boxes"),
    ],
)
def test_mistakes_with_boxes(outputs: Any, labels: Any, message: str) -> None:
    require_message("map", outputs, labels, message)


def test_tokens_beyond_the_vocabulary() -> None:
    with pytest.raises(ModelError, match="token 2 is beyond the 2 of the vocabulary"):
        figure("wer", CTC, ["ab", "c"], vocabulary=VOCABULARY[:2])


@pytest.mark.parametrize(("metric", "package"), [("wer", "jiwer"), ("map", "pycocotools")])
def test_missing_packages_are_one_line(metric: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError) as caught:
        load_metric(metric)
    assert str(caught.value) == f"--metric {metric} needs {package}: pip install 'passwright[metrics]'"


@each(
    ("labels", "wanted"),
    [([0, 1], "top-1"), (["a", "b"], "top-1"), ([0.0, 3.0], "top-1"), ([[0.0, 1.0]], "top-1"), ([0.5, 1.0], "R2")],
)
def test_labels_choose_the_metric(labels: Any, wanted: str) -> None:
    assert load_metric("", np.asarray(labels)).name == wanted


def test_unknown_names() -> None:
    with pytest.raises(
        UsageError, match=r"^--metric top_5: choose from top1, .*did you mean top5.*or give file.py:fun"
    ):
        load_metric("top_5")
