"""A labelled set: rows of inputs, and what a model should make of them.

How right a model is: the share of labels it hits, or what a function of the user's makes of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ...core.errors import EvaluationError, ModelError
from ...core.pass_manager.pass_selection import UsageError
from ...core.plugins.discovery import import_file, plugin_errors
from ...core.verify.given_inputs import checked_inputs
from ...core.verify.input_generation import InputSet
from ...core.verify.input_specs import InputSpec
from ...core.verify.seeded_session import Session
from ..measure.feeds import batch_symbol, fixed_batch

Array = np.ndarray[Any, Any]
LABELS = "labels"
BATCH_SIZE = 32  # run at once, where the model leaves that open


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Arrays by name, in a file of that name."""

    name: str
    arrays: Mapping[str, Array]

    @classmethod
    def read(cls, path: Path) -> LabelledSet:
        """Raises ModelError for what is no .npz file of arrays."""
        if not path.is_file():
            raise ModelError(f"{path} does not exist")
        try:
            with np.load(path, allow_pickle=False) as archive:
                return cls(path.name, {name: archive[name] for name in archive.files})
        except (ValueError, BadZipFile, OSError, EOFError, AttributeError, TypeError) as e:
            raise ModelError(f"{path} is not an .npz file of arrays") from e

    def labels(self, inputs: Sequence[InputSpec]) -> Array:
        """The array called labels, or the one that is no input. Raises ModelError if that is not one alone."""
        names = {i.name for i in inputs}
        others = [name for name in self.arrays if name not in names]
        if LABELS in others:
            return self._array_with_rows(LABELS)
        if len(others) != 1:
            which = f"any of {', '.join(others)} may be" if others else "there are only inputs"
            raise ModelError(f"{self.name}: no array is called {LABELS}; {which}")
        return self._array_with_rows(others[0])

    def _array_with_rows(self, name: str) -> Array:
        if not self.arrays[name].ndim or not len(self.arrays[name]):
            raise ModelError(f"{self.name}: {name} has no rows")
        return self.arrays[name]

    def feeds(self, inputs: Sequence[InputSpec], rows: int) -> tuple[dict[str, Any], list[str]]:
        """The inputs of a model, and the names of those that have `rows` rows. Raises ModelError for others."""
        wanted = {i.name: self.arrays[i.name] for i in inputs if i.name in self.arrays}
        feeds = checked_inputs(InputSet(f"labelled ({self.name})", {}, wanted), inputs).feeds
        leading: int | str = batch_symbol(inputs) or fixed_batch(inputs)
        cut = [i.name for i in inputs if i.name in feeds and i.default is None and i.shape[:1] == (leading,)]
        for name in cut:
            if np.shape(feeds[name])[:1] != (rows,):
                found = np.shape(feeds[name])[0] if np.ndim(feeds[name]) else 0
                raise ModelError(f"{self.name}: {name} has {found} rows, the labels have {rows}")
        if not cut:
            raise ModelError(f"{self.name}: the model has no input with a row for each label")
        return feeds, cut


def run_in_batches(
    model: Session,
    inputs: Sequence[InputSpec],
    outputs: Sequence[str],
    feeds: Mapping[str, Any],
    batched_inputs: Sequence[str],
) -> dict[str, Any]:
    """The outputs of a model for all rows of the `batched_inputs`, slice by slice; outputs without rows are left out.

    Raises EvaluationError if it does not run.
    """
    if batch_symbol(inputs) is None:
        return _concatenated(_run_slices(model, outputs, feeds, batched_inputs, fixed_batch(inputs)))
    try:
        return _concatenated(_run_slices(model, outputs, feeds, batched_inputs, BATCH_SIZE))
    except EvaluationError:
        return _concatenated(_run_slices(model, outputs, feeds, batched_inputs, 1))  # the batch is open in name only


def _run_slices(
    model: Session, outputs: Sequence[str], feeds: Mapping[str, Any], batched_inputs: Sequence[str], size: int
) -> Iterator[dict[str, Any]]:
    """Outputs of slices of that size; a model of a fixed batch gets the last row again where rows are missing."""
    rows = len(feeds[batched_inputs[0]])
    for start in range(0, rows, size):
        at = np.minimum(np.arange(start, start + size), rows - 1)
        count = min(size, rows - start)
        part = {**feeds, **{name: feeds[name][at] for name in batched_inputs}}
        results = zip(outputs, model.run(outputs, part), strict=True)
        yield {name: value[:count] for name, value in results if _row_count(value) == size}


def _row_count(value: Any) -> int:
    return len(value) if isinstance(value, list) or np.ndim(value) else -1


def _concatenated(slices: Iterator[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for part in slices:
        for name, value in part.items():
            found.setdefault(name, []).append(value)
    return {
        name: np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [row for p in parts for row in p]
        for name, parts in found.items()
    }


Metric = Callable[[Mapping[str, Any], Array], float]
"""A number for outputs, by name, and labels."""
TOP_1 = "top-1"
DEFAULT_FUNCTION = "metric"  # the name of the function in a file


def load_metric(text: str) -> tuple[str, Metric]:
    """The name and function that `file.py` or `file.py:name` stands for; top-1 for "".

    Raises PluginError for a file that cannot be run, UsageError for a function that is not there.
    """
    if not text:
        return TOP_1, top_1
    file, _, name = (text, "", DEFAULT_FUNCTION) if text.endswith(".py") else text.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise UsageError(f"--metric {text}: not of the form file.py:function")
    found: Any = getattr(import_file(Path(file)), name, None)
    if not callable(found):
        raise UsageError(f"--metric {text}: {file} has no function {name}")

    def metric(outputs: Mapping[str, Any], labels: Array) -> float:
        with plugin_errors(file, text):
            given: Any = found(dict(outputs), labels)
            value = float(given)
        if not isfinite(value):
            raise ModelError(f"--metric {text}: it gives {value}, which is no accuracy")
        return value

    return name, metric


def top_1(outputs: Mapping[str, Any], labels: Array) -> float:
    """The share of rows whose label the first output names, or gives its largest number. Raises ModelError.

    The first output is taken to be names or numbers of classes unless it is of floats: then those are scores of all
    classes, along its last axis.
    """
    name, output = next(iter(outputs.items()), ("", None))
    if not isinstance(output, np.ndarray):
        raise ModelError("no output has a row for each label; say with --metric what accuracy is")
    hits, truth = _predicted_classes(name, output), labels if labels.ndim < 2 else np.squeeze(labels)
    if hits.shape != truth.shape:
        raise ModelError(f"{name} names classes of shape {hits.shape}, the labels have {truth.shape}: give a --metric")
    if (hits.dtype.kind in "OU") != (truth.dtype.kind in "OU") or truth.dtype.kind not in "biufOU":
        raise ModelError(
            f"{name} names classes by {_label_kind(hits)}, the labels by {_label_kind(truth)}: give a --metric"
        )
    return float(np.mean((hits == truth) & _is_defined(output, hits.shape)))


def _predicted_classes(name: str, output: Array) -> Array:
    if output.dtype.kind in "biuOU":
        return output.reshape(output.shape[:1]) if output.shape[1:] == (1,) else output
    if output.dtype.kind == "c" or output.ndim < 2 or output.shape[-1] < 2:
        raise ModelError(f"{name} of shape {output.shape} does not score classes: say with --metric what accuracy is")
    return np.argmax(output.astype(np.float32) if output.dtype.kind == "V" else output, -1)


def _is_defined(output: Array, shape: tuple[int, ...]) -> Any:
    """Whether an output names a class, row by row: scores of which one is NaN do not."""
    is_score = output.dtype.kind == "f" and output.shape != shape
    return ~np.isnan(output).any(-1) if is_score else True


def _label_kind(array: Array) -> str:
    return "strings" if array.dtype.kind in "OU" else "numbers"
