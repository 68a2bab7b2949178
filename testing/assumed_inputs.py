"""Inputs on which the condition of a rule holds: of those that there are, and others that are made to fulfil it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import onnx

from ..core.ort.backends import Arrays
from ..core.verify.input_sets import InputSet
from ..core.verify.seeded_session import SINGLE_THREADED

Array = np.ndarray[Any, Any]
MAX_MENDED = 48


@dataclass(frozen=True, slots=True)
class AssumedInputs:
    """The input sets that fulfil a condition, and new ones that do, made of others."""

    held: list[InputSet]
    mended: list[InputSet]


def assumed_inputs(condition: bytes, input_sets: Sequence[InputSet]) -> AssumedInputs:
    """The input sets on which all outputs of a model are true. Raises ModelLoadError and EvaluationError."""
    backend = SINGLE_THREADED(condition)
    names = [o.name for o in onnx.load_from_string(condition).graph.output]

    def truth(feeds: Arrays) -> list[Array]:
        return [np.asarray(v) for v in backend.run(names, feeds)]

    held: list[InputSet] = []
    mended: list[InputSet] = []
    for given in input_sets:
        found = truth(given.feeds)
        if all(v.all() for v in found):
            held.append(given)
        elif len(mended) < MAX_MENDED:
            candidates = (replace(given, feeds=feeds) for feeds in variants(given.feeds, found))
            mended += [c for c in candidates if all(v.all() for v in truth(c.feeds))][:1]
    return AssumedInputs(held, mended)


def variants(feeds: Arrays, found: Sequence[Array]) -> Iterator[dict[str, Any]]:
    """Inputs with the elements at places where a condition is false from a place where it is true; or of one sign."""
    tensors: dict[str, Array] = {n: x for n, x in feeds.items() if isinstance(x, np.ndarray)}
    rest = {n: x for n, x in feeds.items() if n not in tensors}
    for shape in dict.fromkeys(v.shape for v in found if v.size):
        true: Array = np.logical_and.reduce([v for v in found if v.shape == shape])
        if true.any() and not true.all():
            places: Array = np.where(true.reshape(-1), cast("Array", np.arange(true.size)), int(np.argmax(true)))
            yield {
                n: x.reshape(-1)[places].reshape(shape) if x.shape == shape else x for n, x in tensors.items()
            } | rest
    positive: dict[str, Array] = {n: np.abs(x) if x.dtype.kind == "f" else x for n, x in tensors.items()}
    yield positive | rest
    yield {n: -x if x.dtype.kind == "f" else x for n, x in positive.items()} | rest
