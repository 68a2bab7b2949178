"""How right a model is: the share of labels it hits, or what a function of the user's makes of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ....core.errors import ModelError
from ....core.plugins.discovery import blamed_on, file_module
from ....core.selection import BadUsage

Array = np.ndarray[Any, Any]
Metric = Callable[[Mapping[str, Any], Array], float]
"""A number for outputs, by name, and labels."""
TOP_1 = "top-1"
DEFAULT = "metric"  # the name of the function in a file


def metric_of(text: str) -> tuple[str, Metric]:
    """The name and function that `file.py` or `file.py:name` stands for; top-1 for "".

    Raises PluginError for a file that cannot be run, BadUsage for a function that is not there.
    """
    if not text:
        return TOP_1, top_1
    file, _, name = (text, "", DEFAULT) if text.endswith(".py") else text.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise BadUsage(f"--metric {text}: not of the form file.py:function")
    found: Any = getattr(file_module(Path(file)), name, None)
    if not callable(found):
        raise BadUsage(f"--metric {text}: {file} has no function {name}")

    def metric(outputs: Mapping[str, Any], labels: Array) -> float:
        with blamed_on(file, text):
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
    hits, truth = _classes(name, output), labels if labels.ndim < 2 else np.squeeze(labels)
    if hits.shape != truth.shape:
        raise ModelError(f"{name} names classes of shape {hits.shape}, the labels have {truth.shape}: give a --metric")
    if (hits.dtype.kind in "OU") != (truth.dtype.kind in "OU") or truth.dtype.kind not in "biufOU":
        raise ModelError(f"{name} names classes by {_kind(hits)}, the labels by {_kind(truth)}: give a --metric")
    return float(np.mean((hits == truth) & _is_told(output, hits.shape)))


def _classes(name: str, output: Array) -> Array:
    if output.dtype.kind in "biuOU":
        return output.reshape(output.shape[:1]) if output.shape[1:] == (1,) else output
    if output.dtype.kind == "c" or output.ndim < 2 or output.shape[-1] < 2:
        raise ModelError(f"{name} of shape {output.shape} does not score classes: say with --metric what accuracy is")
    return np.argmax(output.astype(np.float32) if output.dtype.kind == "V" else output, -1)


def _is_told(output: Array, shape: tuple[int, ...]) -> Any:
    """Whether an output names a class, row by row: scores of which one is NaN do not."""
    is_score = output.dtype.kind == "f" and output.shape != shape
    return ~np.isnan(output).any(-1) if is_score else True


def _kind(array: Array) -> str:
    return "strings" if array.dtype.kind in "OU" else "numbers"
