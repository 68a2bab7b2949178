"""Built-in metrics: functions of the labels and of a model's outputs, which have a row for each label."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import numpy as np
from msgspec import Struct

from ...core.errors import ModelError, UsageError

Array = np.ndarray[Any, Any]
Outputs = Mapping[str, Any]
CLASS_METRICS, NUMBER_METRICS = frozenset({"top1", "tokens"}), frozenset({"r2", "snr"})
"""Metrics that can also compare a model with the original without labels: classes of rows, or numbers."""
ROWS_AT_ONCE = 64  # rows whose probabilities are computed at a time, in double precision
SUM_TOLERANCE = 0.1  # tolerance of a sum of probabilities, which a quantized Softmax rounds
BLANK = 0  # the class in CTC that separates characters
WORD_START = "\u2581"  # of SentencePiece


class Metric(Struct, frozen=True):
    """A function of outputs and labels, and the name of its figure."""

    name: str
    function: Callable[[Outputs, Array], float]
    less_is_better: bool = False

    def __call__(self, outputs: Outputs, labels: Array) -> float:
        """Compute the figure. Raises ModelError for outputs or labels that do not fit."""
        return self.function(outputs, labels)


def ready_metric(name: str, arrays: Mapping[str, Array]) -> Metric | None:
    """The named metric for a labelled set with these arrays; None for an unknown name.

    Raises UsageError if its package is missing.
    """
    found = METRICS.get(name)
    if name == "wer" and found is not None:
        package("jiwer", name)
        return Metric(found.name, partial(word_accuracy, vocabulary=arrays.get("vocabulary")))
    if name == "map":
        package("pycocotools", name)
    return found


def require_labels_for(metric: str) -> None:
    """Raise UsageError for a metric that needs labels."""
    if metric and metric not in CLASS_METRICS | NUMBER_METRICS:
        raise UsageError(f"--metric {metric} needs a labelled set: give --labelled")


def package(module: str, metric: str) -> ModuleType:
    """Import a package of the extra `metrics`. Raises UsageError if it is not installed."""
    try:
        return import_module(module)
    except ImportError as e:
        name = module.partition(".")[0]
        raise UsageError(f"--metric {metric} needs {name}: pip install 'passwright[metrics]'") from e


def is_one_hot(labels: Array) -> bool:
    """Whether each row along the last of several axes has a single 1 and otherwise zeros."""
    if labels.ndim < 2 or labels.shape[-1] < 2 or labels.dtype.kind not in "biuf":
        return False
    return bool(np.all((labels == 0) | (labels == 1)) and np.all(np.sum(labels, -1) == 1))


def first_array(outputs: Outputs) -> tuple[str, Array]:
    """The first output with a row for each label. Raises ModelError if there is none."""
    for name, value in outputs.items():
        if isinstance(value, np.ndarray):
            return name, cast("Array", value)
    raise ModelError("no output has a row for each label; define accuracy with --metric")


def top_1(outputs: Outputs, labels: Array) -> float:
    """The share of rows whose class in the first output is correct. Raises ModelError.

    The first output has names or numbers of classes, or floats: scores of all classes along the last axis. Rows with a
    NaN score have no class. Labels are classes, or one-hot rows.
    """
    name, output = first_array(outputs)
    labels = _classes(labels, output)
    hits, truth = _predicted_classes(name, output), labels if labels.ndim < 2 else np.squeeze(labels)
    if hits.shape != truth.shape:
        raise ModelError(f"{name} names classes of shape {hits.shape}, the labels have {truth.shape}: give a --metric")
    if (hits.dtype.kind in "OU") != (truth.dtype.kind in "OU") or truth.dtype.kind not in "biufOU":
        raise ModelError(
            f"{name} names classes by {_label_kind(hits)}, the labels by {_label_kind(truth)}: give a --metric"
        )
    is_right = hits == truth
    if output.dtype.kind == "f" and output.shape != hits.shape:
        is_right &= ~np.isnan(output).any(-1)
    return float(np.mean(is_right))


def _classes(labels: Array, output: Array) -> Array:
    """Labels as classes, converted from one-hot rows if the output has scores."""
    return np.argmax(labels, -1) if labels.shape == output.shape and is_one_hot(labels) else labels


def _predicted_classes(name: str, output: Array) -> Array:
    if output.dtype.kind in "biuOU":
        return output.reshape(output.shape[:1]) if output.shape[1:] == (1,) else output
    if output.dtype.kind == "c" or output.ndim < 2 or output.shape[-1] < 2:
        raise ModelError(f"{name} of shape {output.shape} does not score classes: define accuracy with --metric")
    return np.argmax(output.astype(np.float32) if output.dtype.kind == "V" else output, -1)


def _label_kind(array: Array) -> str:
    return "strings" if array.dtype.kind in "OU" else "numbers"


def _scores(metric: str, outputs: Outputs, labels: Array) -> tuple[Array, Array]:
    """Scores of classes as rows, and the class of each. Raises ModelError."""
    name, output = first_array(outputs)
    labels = _classes(labels, output)
    if output.dtype.kind not in "fV" or output.ndim < 2 or not output.shape[-1]:
        raise ModelError(f"--metric {metric}: {name} of shape {output.shape} does not score classes")
    truth = labels.reshape(output.shape[:-1]) if labels.size == output[..., 0].size else labels
    if truth.shape != output.shape[:-1]:
        need = f"{list(output.shape[:-1])} for {name} of {list(output.shape)}"
        raise ModelError(f"--metric {metric}: the labels have shape {list(labels.shape)}; it needs {need}")
    if truth.dtype.kind not in "iu":
        raise ModelError(f"--metric {metric}: the labels are {truth.dtype}; it needs integers")
    if np.any(truth >= output.shape[-1]):
        raise ModelError(f"--metric {metric}: label {np.max(truth)} is beyond the {output.shape[-1]} scores of {name}")
    floats = output.astype(np.float32) if output.dtype.kind == "V" else output
    return floats.reshape(-1, output.shape[-1]), truth.reshape(-1)


def top_5(outputs: Outputs, labels: Array) -> float:
    """The share of rows whose class is among the five highest scores of the first output."""
    scores, truth = _scores("top5", outputs, labels)
    if scores.shape[1] <= 5:
        raise ModelError(f"--metric top5: there are only {scores.shape[1]} classes, so all are in the top five")
    if np.any(truth < 0):
        raise ModelError(f"--metric top5: label {np.min(truth)} is not a class")
    best = np.argsort(-scores, 1, kind="stable")[:, :5]
    return float(np.mean(np.any(best == truth[:, None], 1) & ~np.isnan(scores).any(1)))


def _labelled_scores(metric: str, outputs: Outputs, labels: Array) -> tuple[Array, Array]:
    """The scores of all classes at the positions with a label, and those labels. Raises ModelError."""
    scores, truth = _scores(metric, outputs, labels)
    is_there = truth >= 0
    if not is_there.any():
        raise ModelError(f"--metric {metric}: all labels are negative, which means that there is no class")
    return scores[is_there], truth[is_there]


def next_tokens(outputs: Outputs, labels: Array) -> float:
    """The share of tokens in a text that have the highest score given the tokens before them.

    Scores are [rows, length, vocabulary], labels [rows, length]: the token that follows each position, negative for
    none.
    """
    scores, truth = _labelled_scores("tokens", outputs, labels)
    return float(np.mean((np.argmax(scores, -1) == truth) & ~np.isnan(scores).any(-1)))


def perplexity(outputs: Outputs, labels: Array) -> float:
    """The inverse of the geometric mean probability of the tokens of a text; arrays are as for `next_tokens`."""
    return float(np.exp(_mean_loss(*_labelled_scores("perplexity", outputs, labels))))


def cross_entropy(outputs: Outputs, labels: Array) -> float:
    """The mean over the rows of -log of the probability of the class; rows with a negative class are ignored.

    The first float output has probabilities if its values are between 0 and 1 with a sum of about 1, otherwise logits.
    As in scikit-learn, a probability is at least the epsilon of its type.
    """
    arrays = {n: cast("Array", v) for n, v in outputs.items() if isinstance(v, np.ndarray)}
    floats = {n: v for n, v in arrays.items() if v.dtype.kind in "fV"}
    scores, truth = _labelled_scores("loss", floats or outputs, labels)
    is_bounded = np.all((scores >= 0) & (scores <= 1))
    if is_bounded and abs(np.median(np.sum(scores, -1, dtype=np.float64)) - 1) < SUM_TOLERANCE:
        own = scores[np.arange(len(truth)), truth].astype(np.float64)
        return float(np.mean(-np.log(np.maximum(own, np.finfo(scores.dtype).eps))))
    return _mean_loss(scores, truth)


def _mean_loss(scores: Array, truth: Array) -> float:
    """The mean of -log of the probability of each class, from logits."""
    total = 0.0
    for start in range(0, len(truth), ROWS_AT_ONCE):
        part = scores[start : start + ROWS_AT_ONCE].astype(np.float64)
        part -= np.max(part, -1, keepdims=True)
        own = part[np.arange(len(part)), truth[start : start + ROWS_AT_ONCE]]
        total += float(np.sum(np.log(np.sum(np.exp(part), -1)) - own))
    return total / len(truth)


def _numbers(metric: str, outputs: Outputs, labels: Array) -> tuple[Array, Array]:
    """The first output and the labels, as rows of numbers. Raises ModelError."""
    name, output = first_array(outputs)
    if output.dtype.kind not in "fVbiu" or labels.dtype.kind not in "fbiu":
        raise ModelError(f"--metric {metric}: {name} is {output.dtype}, the labels {labels.dtype}; it needs numbers")
    shapes = [tuple(n for n in (a.shape[0], *a.shape[1:]) if n != 1) for a in (output, labels)]
    if shapes[0] != shapes[1]:
        raise ModelError(
            f"--metric {metric}: the labels have shape {list(labels.shape)}; it needs the shape of {name}, "
            f"{list(output.shape)}"
        )
    rows = len(labels)
    return output.astype(np.float64).reshape(rows, -1), labels.astype(np.float64).reshape(rows, -1)


def r2(outputs: Outputs, labels: Array) -> float:
    """R2, the share of the labels' variance that the first output explains: the mean over the numbers of a row.

    Labels have the shape of the output.
    """
    found, truth = _numbers("r2", outputs, labels)
    variance = np.sum(np.square(truth - np.mean(truth, 0)), 0)
    if not np.all(variance):
        raise ModelError(f"--metric r2: number {int(np.argmin(variance))} is the same in all labels: R2 is not defined")
    return float(np.mean(1 - np.sum(np.square(truth - found), 0) / variance))


def snr(outputs: Outputs, labels: Array) -> float:
    """The signal-to-noise ratio of the first output in dB; the labels, with its shape, are the signal."""
    found, truth = _numbers("snr", outputs, labels)
    signal, noise = np.sum(np.square(truth)), np.sum(np.square(truth - found))
    if not signal or not noise:
        raise ModelError(f"--metric snr: {'the labels are all 0' if not signal else 'the output equals the labels'}")
    return float(10 * np.log10(signal / noise))


def word_accuracy(outputs: Outputs, labels: Array, vocabulary: Array | None = None) -> float:
    """1 minus the word error rate: substituted, removed and inserted words divided by the words of the labels.

    The first output has strings; or tokens [rows, length], negative for none; or CTC scores [rows, steps, classes],
    decoded greedily with class 0 as the blank. Labels are strings, and the vocabulary has the string of each token;
    without it, labels are tokens, negative for none, and each token is a word.
    """
    name, output = first_array(outputs)
    if len(output) != len(labels):
        raise ModelError(f"--metric wer: {name} has {len(output)} rows, the labels have {len(labels)}")
    is_text = labels.dtype.kind in "OU"
    if output.dtype.kind not in "OU" and is_text != (vocabulary is not None):
        both = "texts, so the set needs an array vocabulary" if is_text else "not text; leave out the array vocabulary"
        raise ModelError(f"--metric wer: {name} has tokens, and the labels are {both}")
    if not is_text and labels.dtype.kind not in "iu":
        raise ModelError(f"--metric wer: the labels are {labels.dtype}; it needs texts or tokens")
    found = [_text(row, vocabulary) for row in _read_rows(name, output)]
    if output.dtype.kind == "f" and not is_text:
        labels = np.where(labels == BLANK, -1, labels)
    if is_text and labels.size != len(labels):
        raise ModelError(f"--metric wer: the labels have shape {list(labels.shape)}; it needs a text for each row")
    truth = [str(t) for t in labels.reshape(len(labels))] if is_text else [_text(row, None) for row in labels]
    if not any(t.split() for t in truth):
        raise ModelError("--metric wer: the labels contain no words")
    return 1.0 - float(package("jiwer", "wer").wer(truth, found))


def _read_rows(name: str, output: Array) -> Iterator[Any]:
    """Yield the string, or the tokens, of each row. Raises ModelError."""
    if output.dtype.kind in "OU" and output.size:
        yield from output.reshape(len(output), -1)[:, 0]
    elif output.dtype.kind in "iu" and output.ndim == 2:
        yield from output
    elif output.dtype.kind == "f" and output.ndim == 3 and output.shape[-1]:
        for steps in np.where(np.isnan(output).any(-1), BLANK, np.argmax(output, -1)):
            is_new = np.diff(steps, prepend=BLANK) != 0
            yield steps[is_new & (steps != BLANK)]
    else:
        forms = "texts, tokens [rows, length] or scores [rows, steps, classes]"
        raise ModelError(f"--metric wer: {name} is {output.dtype} of {list(output.shape)}; it needs {forms}")


def _text(row: Any, vocabulary: Array | None) -> str:
    """The text of a row of tokens, or the row itself if it is a string."""
    if not isinstance(row, np.ndarray):
        return str(row)
    tokens: list[int] = row[row >= 0].tolist()
    if vocabulary is None:
        return " ".join(map(str, tokens))
    if tokens and max(tokens) >= len(vocabulary):
        raise ModelError(f"--metric wer: token {max(tokens)} is beyond the {len(vocabulary)} of the vocabulary")
    return "".join(str(vocabulary[t]) for t in tokens).replace(WORD_START, " ")


def mean_average_precision(outputs: Outputs, labels: Array) -> float:
    """The average precision of detected boxes over all classes and overlaps of 0.50 to 0.95, as COCO defines it.

    Boxes are corners x1, y1, x2, y2. The outputs are rows of corners, score and class [rows, boxes, 6]; or boxes
    [rows, boxes, 4], and scores and integer classes [rows, boxes]. Boxes with a score of 0 or a number that is not
    finite are ignored: COCO's overlap with such a box is that with the label alone. Labels [rows, boxes, 5] are a class
    and the corners; class -1 marks unused rows.
    """
    if labels.ndim != 3 or labels.shape[-1] != 5 or labels.dtype.kind not in "fiu":
        raise ModelError(
            f"--metric map: the labels are {labels.dtype} of {list(labels.shape)}; it needs numbers [rows, boxes, 5]: "
            "a class and x1, y1, x2, y2"
        )
    truth = labels.astype(np.float64)
    if not np.any(truth[..., 0] >= 0):
        raise ModelError("--metric map: the labels contain no boxes")
    if not np.all(np.isfinite(truth[truth[..., 0] >= 0])):
        raise ModelError("--metric map: the labels contain numbers that are not finite")
    found = _detections(outputs)
    if len(found) != len(truth):
        raise ModelError(f"--metric map: there are detections for {len(found)} rows, and labels for {len(truth)}")
    coco, evaluation = package("pycocotools.coco", "map"), package("pycocotools.cocoeval", "map")
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):  # noqa: PTH123 - a device
        wanted = coco.COCO()
        boxes = [(image, box) for image, row in enumerate(truth) for box in row if box[0] >= 0]
        wanted.dataset = {
            "images": [{"id": image} for image in range(len(truth))],
            "categories": [{"id": int(c)} for c in np.unique([box[0] for _, box in boxes])],
            "annotations": [
                {"id": n, "image_id": image, "category_id": int(box[0]), "iscrowd": 0, **_area(box[1:])}
                for n, (image, box) in enumerate(boxes, 1)
            ],
        }
        wanted.createIndex()
        results = [
            {"image_id": image, "category_id": int(box[5]), "score": float(box[4]), **_area(box[:4])}
            for image, row in enumerate(found)
            for box in row
            if box[4] > 0 and np.all(np.isfinite(box))
        ]
        if not results:
            return 0.0
        judged = evaluation.COCOeval(wanted, wanted.loadRes(results), "bbox")
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    return float(judged.stats[0])


def _area(corners: Sequence[float]) -> dict[str, Any]:
    x1, y1, x2, y2 = map(float, corners)
    return {"bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1)}


def _detections(outputs: Outputs) -> list[Array]:
    """The corners, score and class of each row's boxes. Raises ModelError."""
    numbers = {n: v for n, v in outputs.items() if not len(v) or np.asarray(v[0]).dtype.kind in "fiu"}
    whole = next((v for v in numbers.values() if _row_shape(v)[1:] == (6,)), None)
    if whole is not None:
        return [np.asarray(row, np.float64) for row in whole]
    boxes = next((v for v in numbers.values() if _row_shape(v)[1:] == (4,)), None)
    others = {n: v for n, v in numbers.items() if v is not boxes and len(_row_shape(v)) == 1}
    classes = next((n for n, v in others.items() if np.asarray(v[0]).dtype.kind in "iu"), None)
    scores = next((n for n, v in others.items() if np.asarray(v[0]).dtype.kind == "f"), None)
    if boxes is None or classes is None or scores is None:
        forms = "one [rows, boxes, 6], or boxes [rows, boxes, 4], scores and integer classes [rows, boxes]"
        listed = ", ".join(f"{n} of {list(np.shape(v[0]))} for a row" for n, v in outputs.items() if len(v))
        raise ModelError(f"--metric map: the outputs are {listed}; it needs {forms}")
    parts = [*zip(boxes, others[scores], others[classes], strict=True)]
    if any(not len(b) == len(s) == len(c) for b, s, c in parts):
        raise ModelError("--metric map: the outputs have different numbers of boxes, scores and classes")
    return [np.concatenate([b, s[:, None], c[:, None]], 1).astype(np.float64) for b, s, c in parts]


def _row_shape(output: Any) -> tuple[int, ...]:
    """The shape of one row of an output, which may be a list of rows."""
    return np.shape(output[0]) if len(output) else ()


METRICS: Mapping[str, Metric] = {
    "top1": Metric("top-1", top_1),
    "top5": Metric("top-5", top_5),
    "r2": Metric("R2", r2),
    "snr": Metric("SNR (dB)", snr),
    "tokens": Metric("next tokens", next_tokens),
    "perplexity": Metric("perplexity", perplexity, less_is_better=True),
    "loss": Metric("loss", cross_entropy, less_is_better=True),
    "wer": Metric("word accuracy", word_accuracy),
    "map": Metric("mAP", mean_average_precision),
}
