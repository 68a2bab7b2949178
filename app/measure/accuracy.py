"""Accuracy of models on labelled sets: top-1, or a function of a user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from ...core.errors import EvaluationError, ModelError
from ...core.io.array_files import read_arrays
from ...core.plugins.pass_registry import function_in_file
from ...core.support.python_files import plugin_errors
from ...core.verify.given_inputs import fitting_inputs
from ...core.verify.input_sets import InputSet
from ...core.verify.input_specs import InputSpec
from ...core.verify.sample_rows import batch_symbol, fixed_batch
from ...core.verify.seeded_session import Session

Array = np.ndarray[Any, Any]
LABELS = "labels"
BATCH_SIZE = 32  # of models without a fixed batch


class LabelledSet(Struct, frozen=True):
    """Arrays by name, and the name of their file."""

    name: str
    arrays: Mapping[str, Array]

    @classmethod
    def read(cls, path: Path) -> LabelledSet:
        """Read an .npz file of arrays. Raises ModelError for other files."""
        return cls(path.name, read_arrays(path))

    def labels(self, inputs: Sequence[InputSpec]) -> Array:
        """The array called labels, or the only one that is not an input. Raises ModelError if neither exists."""
        names = {i.name for i in inputs}
        others = [name for name in self.arrays if name not in names]
        if LABELS not in others and len(others) != 1:
            which = f"any of {', '.join(others)} may be" if others else "there are only inputs"
            raise ModelError(f"{self.name}: no array is called {LABELS}; {which}")
        name = LABELS if LABELS in others else others[0]
        if not self.arrays[name].ndim or not len(self.arrays[name]):
            raise ModelError(f"{self.name}: {name} has no rows")
        return self.arrays[name]

    def feeds(self, inputs: Sequence[InputSpec], rows: int) -> tuple[dict[str, Any], list[str]]:
        """The inputs of a model, and the names of those that have `rows` rows. Raises ModelError for others."""
        arrays = {i.name: self.arrays[i.name] for i in inputs if i.name in self.arrays}
        feeds = fitting_inputs(InputSet(f"labelled ({self.name})", {}, arrays), inputs, has_rows=True).feeds
        leading: int | str = batch_symbol(inputs) or fixed_batch(inputs)
        batched = [i.name for i in inputs if i.name in feeds and i.default is None and i.shape[:1] == (leading,)]
        for name in batched:
            if np.shape(feeds[name])[:1] != (rows,):
                found = np.shape(feeds[name])[0] if np.ndim(feeds[name]) else 0
                raise ModelError(f"{self.name}: {name} has {found} rows, the labels have {rows}")
        if not batched:
            raise ModelError(f"{self.name}: the model has no input with a row for each label")
        return dict(feeds), batched


def run_in_batches(
    model: Session,
    inputs: Sequence[InputSpec],
    outputs: Sequence[str],
    feeds: Mapping[str, Any],
    batched_inputs: Sequence[str],
) -> dict[str, Any]:
    """The outputs of a model for all rows of the `batched_inputs`, in batches; outputs without rows are left out.

    Raises EvaluationError if it does not run.
    """
    if batch_symbol(inputs) is None:
        return _run_in_batches_of(fixed_batch(inputs), model, outputs, feeds, batched_inputs)
    try:
        return _run_in_batches_of(BATCH_SIZE, model, outputs, feeds, batched_inputs)
    except EvaluationError:  # the batch is symbolic, but only one works
        return _run_in_batches_of(1, model, outputs, feeds, batched_inputs)


def _run_in_batches_of(
    size: int, model: Session, outputs: Sequence[str], feeds: Mapping[str, Any], batched_inputs: Sequence[str]
) -> dict[str, Any]:
    """The outputs in batches of that size; the last one repeats the last row to be complete."""
    found: dict[str, list[Any]] = {}
    rows = len(feeds[batched_inputs[0]])
    for start in range(0, rows, size):
        indices = np.minimum(np.arange(start, start + size), rows - 1)
        part = {**feeds, **{name: feeds[name][indices] for name in batched_inputs}}
        for name, value in zip(outputs, model.run(outputs, part), strict=True):
            if (isinstance(value, list) or np.ndim(value)) and len(value) == size:
                found.setdefault(name, []).append(value[: rows - start])
    return {
        name: np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [row for p in parts for row in p]
        for name, parts in found.items()
    }


def accuracy(
    model: Session, inputs: Sequence[InputSpec], outputs: Sequence[str], examples: LabelledSet, metric: Metric
) -> float:
    """The value of a metric for a model's outputs on a labelled set.

    Raises ModelError for a set that does not fit the model, EvaluationError if the model does not run.
    """
    labels = examples.labels(inputs)
    feeds, batched = examples.feeds(inputs, len(labels))
    return metric(run_in_batches(model, inputs, outputs, feeds, batched), labels)


Metric = Callable[[Mapping[str, Any], Array], float]
"""The accuracy of outputs by name, for labels."""
TOP_1 = "top-1"
DEFAULT_FUNCTION = "metric"  # the name of the function in a file


def load_metric(text: str) -> tuple[str, Metric]:
    """The name and function in `file.py` or `file.py:name`; top-1 for "".

    Raises PluginError for a file that cannot be run, UsageError for a function that does not exist.
    """
    if not text:
        return TOP_1, top_1
    name, found = function_in_file("--metric", text, DEFAULT_FUNCTION)

    def metric(outputs: Mapping[str, Any], labels: Array) -> float:
        with plugin_errors(text.removesuffix(f":{name}"), text):
            result: Any = found(dict(outputs), labels)
            value = float(result)
        if not isfinite(value):
            raise ModelError(f"--metric {text}: it gives {value}, which is not an accuracy")
        return value

    return name, metric


def top_1(outputs: Mapping[str, Any], labels: Array) -> float:
    """The share of rows with the right class in the first output. Raises ModelError.

    The first output has names or numbers of classes, or floats: scores of all classes along the last axis. Rows with a
    score that is NaN have no class.
    """
    name, output = next(iter(outputs.items()), ("", None))
    if not isinstance(output, np.ndarray):
        raise ModelError("no output has a row for each label; define accuracy with --metric")
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


def _predicted_classes(name: str, output: Array) -> Array:
    if output.dtype.kind in "biuOU":
        return output.reshape(output.shape[:1]) if output.shape[1:] == (1,) else output
    if output.dtype.kind == "c" or output.ndim < 2 or output.shape[-1] < 2:
        raise ModelError(f"{name} of shape {output.shape} does not score classes: define accuracy with --metric")
    return np.argmax(output.astype(np.float32) if output.dtype.kind == "V" else output, -1)


def _label_kind(array: Array) -> str:
    return "strings" if array.dtype.kind in "OU" else "numbers"
