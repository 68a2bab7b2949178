"""Accuracy of models on labelled sets, by a built-in metric or a user's function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, cast

import numpy as np
from msgspec import Struct

from ...core.errors import EvaluationError, ModelError, PluginError, UsageError
from ...core.io.array_files import read_arrays
from ...core.plugins.pass_registry import function_in_file, python_file
from ...core.support.confidence_intervals import mean_interval
from ...core.support.python_files import plugin_errors
from ...core.support.suggestions import did_you_mean
from ...core.verify.given_inputs import fitting_inputs
from ...core.verify.input_sets import InputSet
from ...core.verify.input_specs import InputSpec
from ...core.verify.sample_rows import batch_symbol, fixed_batch
from ...core.verify.seeded_session import Session
from .cached_runs import CachedSession, TokenCache, present_name
from .ready_metrics import METRICS, Metric, ready_metric

Array = np.ndarray[Any, Any]
LABELS = "labels"
BATCH_SIZE = 8  # of models without a fixed batch; with more rows, values do not fit into the processor's caches
PROBED_SIZES = 2, 3  # of batches, whose outputs show which axes have rows
PARTS = 20  # of the rows, each left out once
DEFAULT_FUNCTION = "metric"  # the name of the function in a file


class LabelledSet(Struct, frozen=True):
    """Arrays by name, and the name of their file."""

    name: str
    arrays: Mapping[str, Array]

    @classmethod
    def read(cls, path: Path) -> LabelledSet:
        """Read an .npz file of arrays. Raises ModelError for other files."""
        return cls(path.name, read_arrays(path))

    def labels(self, inputs: Sequence[InputSpec]) -> Array:
        """The array named labels, or the only one that is not an input. Raises ModelError if neither exists."""
        names = {i.name for i in inputs}
        others = [name for name in self.arrays if name not in names]
        if LABELS not in others and len(others) != 1:
            which = f"any of {', '.join(others)} may be" if others else "there are only inputs"
            raise ModelError(f"{self.name}: it has no array {LABELS}; {which}")
        name = LABELS if LABELS in others else others[0]
        if not self.arrays[name].ndim or not len(self.arrays[name]):
            raise ModelError(f"{self.name}: {name} has no rows (it is a scalar)")
        return self.arrays[name]

    def feeds(self, inputs: Sequence[InputSpec], rows: int) -> tuple[dict[str, Any], dict[str, int]]:
        """The inputs of a model, and the axes with `rows` rows. Raises ModelError for unsuitable arrays."""
        arrays = {i.name: self.arrays[i.name] for i in inputs if i.name in self.arrays}
        if (cache := TokenCache.of(inputs, arrays)) is not None:
            arrays = cache.complete(inputs, arrays, self.name)
        feeds = dict(fitting_inputs(InputSet(f"labelled ({self.name})", {}, arrays), inputs, has_rows=True).feeds)
        leading: int | str = batch_symbol(inputs) or fixed_batch(inputs)
        required = [i for i in inputs if i.name in feeds and i.default is None]
        axes = {i.name: 0 for i in required if i.shape[:1] == (leading,)}
        for name in axes:
            if np.shape(feeds[name])[:1] != (rows,):
                found = np.shape(feeds[name])[0] if np.ndim(feeds[name]) else 0
                raise ModelError(f"{self.name}: {name} has {found} rows, the labels have {rows}")
        if not axes:
            raise ModelError(f"{self.name}: the model has no input with a row for each label")
        for i in required:  # states have their batch after the layers; a single row is repeated
            axis = i.shape.index(leading) if isinstance(leading, str) and leading in i.shape[1:] else 0
            extent = np.shape(feeds[i.name])[axis] if 0 < axis < np.ndim(feeds[i.name]) else 0
            if i.name not in axes and extent in {1, rows}:
                feeds[i.name] = np.repeat(feeds[i.name], rows // extent, axis)
                axes[i.name] = axis
        return feeds, axes

    def chosen(self, inputs: Sequence[InputSpec], rows: Array) -> LabelledSet:
        """Some rows, with their labels. Raises ModelError for a set that does not fit the inputs."""
        labels = self.labels(inputs)
        feeds, axes = self.feeds(inputs, len(labels))
        taken = {n: a for n, a in rows_of(feeds, axes, rows).items() if n in self.arrays}
        others = {n: a[rows] if a is labels else a for n, a in self.arrays.items()}
        return LabelledSet(self.name, {**others, **taken})


def run_in_batches(
    model: Session,
    inputs: Sequence[InputSpec],
    outputs: Sequence[str],
    feeds: Mapping[str, Any],
    axes: Mapping[str, int],
    most: int = BATCH_SIZE,
    known: dict[str, int | None] | None = None,
) -> dict[str, Any]:
    """Compute the outputs of a model for all rows, which inputs have along `axes`, in batches of `most` rows at most.

    Outputs have the rows along their first axis, wherever the model has its batch axis: the axis that grows with the
    batch or, for a fixed batch, the first axis of that size. An output without such an axis, or with other varying
    extents, is a list of the outputs of each run, with a single row if the model accepts it. The axes of outputs are
    looked up in `known`, or added to it. Raises EvaluationError if the model does not run.
    """
    if batch_symbol(inputs) is None:
        return _run_in_batches_of(fixed_batch(inputs), model, outputs, feeds, axes)
    known = {} if known is None else known
    with suppress(EvaluationError):  # the batch is symbolic, but only one size works
        if not known:
            known.update(_axes_of_rows(model, outputs, feeds, axes))
        if None not in known.values():
            size = even_batch(_row_count(feeds, axes), most)
            return _run_in_batches_of(size, model, outputs, feeds, axes, known)
    return _run_in_batches_of(1, model, outputs, feeds, axes, known)


def even_batch(rows: int, most: int = BATCH_SIZE) -> int:
    """The size of equal batches of `most` rows at most, of which the last one repeats few rows or none."""
    return -(-rows // -(-rows // most))


def _axes_of_rows(
    model: Session, outputs: Sequence[str], feeds: Mapping[str, Any], axes: Mapping[str, int]
) -> dict[str, int | None]:
    """The axis of each output that grows with the batch; None for outputs without one."""
    less, more = PROBED_SIZES
    rows = _row_count(feeds, axes)
    found = [model.run(outputs, rows_of(feeds, axes, np.arange(size) % rows)) for size in PROBED_SIZES]
    shapes = [[(len(v),) if isinstance(v, list) else np.shape(v) for v in values] for values in found]

    def axis(a: Sequence[int], b: Sequence[int]) -> int | None:
        pairs = enumerate(zip(a, b, strict=False))
        return next((i for i, (n, m) in pairs if n and n * more == m * less and len(a) == len(b)), None)

    return {name: axis(a, b) for name, a, b in zip(outputs, *shapes, strict=True)}


def _row_count(feeds: Mapping[str, Any], axes: Mapping[str, int]) -> int:
    name, axis = next(iter(axes.items()))
    return np.shape(feeds[name])[axis]


def rows_of(feeds: Mapping[str, Any], axes: Mapping[str, int], rows: Array) -> dict[str, Any]:
    """The inputs of these rows."""
    return {**feeds, **{name: np.take(feeds[name], rows, axis) for name, axis in axes.items()}}


def _run_in_batches_of(
    size: int,
    model: Session,
    outputs: Sequence[str],
    feeds: Mapping[str, Any],
    axes: Mapping[str, int],
    known: Mapping[str, int | None] | None = None,
) -> dict[str, Any]:
    """Compute the outputs in batches of this size; the last batch is filled by repeating the last row."""
    found: dict[str, list[Any]] = {name: [] for name in outputs}
    rows = _row_count(feeds, axes)
    for start in range(0, rows, size):
        part = rows_of(feeds, axes, np.minimum(np.arange(start, start + size), rows - 1))
        for name, value in zip(outputs, model.run(outputs, part), strict=True):
            found[name].append(value)
    return {name: _joined(values, size, rows, (known or {}).get(name, -1)) for name, values in found.items()}


def _joined(values: list[Any], size: int, rows: int, axis: int | None) -> Any:
    """Concatenate the rows of an output from all batches; a list without an axis of rows; -1: the axis is unknown."""
    if isinstance(values[0], list):
        has_rows = axis is not None and all(len(v) == size for v in values)
        return [row for v in values for row in v][:rows] if has_rows else values
    if axis == -1:
        axis = next((i for i, n in enumerate(np.shape(values[0])) if n == size), None)
    if axis is None or axis >= np.ndim(values[0]) or len({np.shape(v) for v in values}) > 1:
        return values
    arrays = [np.moveaxis(v, axis, 0) for v in cast("list[Array]", values)]
    each, rest = divmod(len(arrays[0]), size)
    return values if rest else np.concatenate(arrays)[: rows * each]


def labelled_outputs(
    model: Session,
    inputs: Sequence[InputSpec],
    outputs: Sequence[str],
    examples: LabelledSet,
    most: int = BATCH_SIZE,
    known: dict[str, int | None] | None = None,
) -> dict[str, Any]:
    """The outputs of a model on a labelled set, in batches of `most` rows at most; tokens in parts, with their cache.

    The axes of rows of outputs are looked up in `known`, or added to it. Raises ModelError for a set that does not fit
    the model, and EvaluationError if the model does not run.
    """
    feeds, axes = examples.feeds(inputs, len(examples.labels(inputs)))
    cache = TokenCache.of(inputs, examples.arrays)
    if cache is not None and {*map(present_name, cache.past)} <= {*outputs}:
        outputs = [name for name in outputs if name not in map(present_name, cache.past)]
        model = CachedSession(model, cache)
    return run_in_batches(model, inputs, outputs, feeds, axes, most, known)


def figures_of_parts(metric: Metric, outputs: Mapping[str, Any], labels: Array) -> list[float]:
    """The figures without each one of PARTS parts of the rows; none if an output has no rows, or a part no figure."""
    rows, parts = len(labels), min(PARTS, len(labels))
    if parts < 3 or any(len(v) != rows for v in outputs.values()):
        return []
    figures = list[float]()
    for part in range(parts):
        kept = np.flatnonzero(np.arange(rows) % parts != part)
        found: dict[str, Any] = {}
        for name, value in outputs.items():
            found[name] = [value[i] for i in kept] if isinstance(value, list) else value[kept]
        try:
            figures.append(metric(found, labels[kept]))
        except (ModelError, PluginError):  # as R2 of labels that are all the same
            return []
    return figures if all(map(isfinite, figures)) else []


def jackknife_interval(whole: float, parts: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % confidence interval of a figure of all rows, from the figures without each part; None without any."""
    if not parts:
        return None
    n = len(parts)
    _, low, high = mean_interval([n * whole - (n - 1) * part for part in parts])
    return low, high


def notes_about(outputs: Mapping[str, Any]) -> list[str]:
    """A note for each output that has no rows."""
    names = [name for name, v in outputs.items() if isinstance(v, list) and v and isinstance(v[0], np.ndarray)]
    return [f"{name} has no batch axis: a metric receives a list of the outputs of each run" for name in names]


def load_metric(text: str, labels: Array | None = None, arrays: Mapping[str, Array] | None = None) -> Metric:
    """Load a metric by name, or from `file.py` or `file.py:name`; "" is top-1, or R2 if labels are not classes.

    `arrays` are those of the labelled set. Raises PluginError for a file that cannot be run, and UsageError for an
    unknown metric or function and for a missing package.
    """
    if not text:
        is_real = labels is not None and labels.dtype.kind == "f" and not np.all(labels == np.round(labels))
        return METRICS["r2" if is_real else "top1"]
    if (ready := ready_metric(text, arrays or {})) is not None:
        return ready
    if python_file(text) is None:
        near = did_you_mean(text, METRICS)
        raise UsageError(f"--metric {text}: choose from {', '.join(METRICS)}{near}, or give file.py:function")
    name, found = function_in_file("--metric", text, DEFAULT_FUNCTION)

    def metric(outputs: Mapping[str, Any], labels: Array) -> float:
        with plugin_errors(text.removesuffix(f":{name}"), text):
            result: Any = found(dict(outputs), labels)
            value = float(result)
        if not isfinite(value):
            raise ModelError(f"--metric {text}: it returned {value}, which is not a finite number")
        return value

    return Metric(name, metric)
