"""A labelled set: rows of inputs, and what a model should make of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ....core.errors import EvaluationError, ModelError
from ....core.measure.feeds import batch_symbol, fixed_batch
from ....core.verify.draws import Draw
from ....core.verify.given import checked
from ....core.verify.performer import Session
from ....core.verify.signature import Input

Array = np.ndarray[Any, Any]
LABELS = "labels"
ROWS = 32  # run at once, where the model leaves that open


@dataclass(frozen=True, slots=True)
class Labelled:
    """Arrays by name, in a file of that name."""

    name: str
    arrays: Mapping[str, Array]

    @classmethod
    def read(cls, path: Path) -> Labelled:
        """Raises ModelError for what is no .npz file of arrays."""
        if not path.is_file():
            raise ModelError(f"{path} does not exist")
        try:
            with np.load(path, allow_pickle=False) as archive:
                return cls(path.name, {name: archive[name] for name in archive.files})
        except (ValueError, BadZipFile, OSError, EOFError, AttributeError, TypeError) as e:
            raise ModelError(f"{path} is not an .npz file of arrays") from e

    def labels(self, inputs: Sequence[Input]) -> Array:
        """The array called labels, or the one that is no input. Raises ModelError if that is not one alone."""
        names = {i.name for i in inputs}
        others = [name for name in self.arrays if name not in names]
        if LABELS in others:
            return self._rowed(LABELS)
        if len(others) != 1:
            which = f"any of {', '.join(others)} may be" if others else "there are only inputs"
            raise ModelError(f"{self.name}: no array is called {LABELS}; {which}")
        return self._rowed(others[0])

    def _rowed(self, name: str) -> Array:
        if not self.arrays[name].ndim or not len(self.arrays[name]):
            raise ModelError(f"{self.name}: {name} has no rows")
        return self.arrays[name]

    def feeds(self, inputs: Sequence[Input], rows: int) -> tuple[dict[str, Any], list[str]]:
        """The inputs of a model, and the names of those that have `rows` rows. Raises ModelError for others."""
        wanted = {i.name: self.arrays[i.name] for i in inputs if i.name in self.arrays}
        feeds = checked(Draw(f"labelled ({self.name})", {}, wanted), inputs).feeds
        leading: int | str = batch_symbol(inputs) or fixed_batch(inputs)
        cut = [i.name for i in inputs if i.name in feeds and i.default is None and i.shape[:1] == (leading,)]
        for name in cut:
            if np.shape(feeds[name])[:1] != (rows,):
                found = np.shape(feeds[name])[0] if np.ndim(feeds[name]) else 0
                raise ModelError(f"{self.name}: {name} has {found} rows, the labels have {rows}")
        if not cut:
            raise ModelError(f"{self.name}: the model has no input with a row for each label")
        return feeds, cut


def answers(
    model: Session, inputs: Sequence[Input], outputs: Sequence[str], feeds: Mapping[str, Any], cut: Sequence[str]
) -> dict[str, Any]:
    """What a model gives for all rows of the inputs to `cut`, slice by slice; outputs without rows are left out.

    Raises EvaluationError if it does not run.
    """
    if batch_symbol(inputs) is None:
        return _joined(_slices(model, outputs, feeds, cut, fixed_batch(inputs)))
    try:
        return _joined(_slices(model, outputs, feeds, cut, ROWS))
    except EvaluationError:
        return _joined(_slices(model, outputs, feeds, cut, 1))  # the batch is open in name only


def _slices(
    model: Session, outputs: Sequence[str], feeds: Mapping[str, Any], cut: Sequence[str], size: int
) -> Iterator[dict[str, Any]]:
    """Outputs of slices of that size; a model of a fixed batch gets the last row again where rows are missing."""
    rows = len(feeds[cut[0]])
    for start in range(0, rows, size):
        at = np.minimum(np.arange(start, start + size), rows - 1)
        count = min(size, rows - start)
        part = {**feeds, **{name: feeds[name][at] for name in cut}}
        results = zip(outputs, model.run(outputs, part), strict=True)
        yield {name: value[:count] for name, value in results if _rows_of(value) == size}


def _rows_of(value: Any) -> int:
    return len(value) if isinstance(value, list) or np.ndim(value) else -1


def _joined(slices: Iterator[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for part in slices:
        for name, value in part.items():
            found.setdefault(name, []).append(value)
    return {
        name: np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [row for p in parts for row in p]
        for name, parts in found.items()
    }
