"""Sizes of dims that shape inference cannot determine, as they are in runs of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..errors import EvaluationError
from ..ir.dtypes import FLOATS, INTEGERS
from ..serialization.proto_queries import copy_without
from ..verify.reference.float64_evaluation import evaluate_by_policy
from .obligation import SMALL_SIZES, InputType, NotApplicable, input_types

MAX_RUN_ELEMENTS = 1 << 22  # of the weights and inputs of a model that is run
RUNS = 2


def sizes_of_runs(model: onnx.ModelProto, open_dims: Mapping[str, Sequence[str | None]]) -> tuple[dict[str, int], ...]:
    """The sizes of all symbols in runs at different sizes of the inputs; empty if the model cannot be evaluated.

    `open_dims` has, by value, the names of its unknown dims, None for other dims.
    """
    left = MAX_RUN_ELEMENTS - sum(int(np.prod(t.dims)) for t in model.graph.initializer)
    if left < 0:
        return ()
    observed = copy_without(model)
    del observed.graph.output[:]
    observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in open_dims)
    found: list[dict[str, int]] = []
    try:
        inputs = input_types(model)
        for sizes in _input_sizes(inputs):
            feeds = _feeds(inputs, sizes, left)
            try:
                values = evaluate_by_policy(observed, feeds, {}, lambda array, _type, _exact: array)
            except EvaluationError:
                continue
            found.append({**sizes, **_sizes(open_dims, values)})
            if len(found) == RUNS:
                break
    except NotApplicable:
        return ()
    return tuple(found)


def _input_sizes(inputs: Sequence[InputType]) -> Iterator[dict[str, int]]:
    symbols = tuple(dict.fromkeys(s for i in inputs for s in i.symbols))
    for sizes in SMALL_SIZES if symbols else ((),):
        yield {s: sizes[i % 2] for i, s in enumerate(symbols)}


def _feeds(inputs: Sequence[InputType], sizes: Mapping[str, int], most: int) -> dict[str, Any]:
    """Inputs at those sizes. Raises NotApplicable for too many elements, and for strings."""
    rng = np.random.default_rng(0)
    shapes = {i.name: i.shape(sizes) for i in inputs}
    if sum(int(np.prod(s)) for s in shapes.values()) > most:
        raise NotApplicable("the model is too large to be evaluated")
    feeds: dict[str, Any] = {}
    for given in inputs:
        if given.dtype in FLOATS:
            feeds[given.name] = rng.standard_normal(shapes[given.name])
        elif given.dtype in INTEGERS | {onnx.TensorProto.BOOL}:
            dtype = helper.tensor_dtype_to_np_dtype(given.dtype)
            feeds[given.name] = rng.integers(0, 2, shapes[given.name]).astype(dtype)
        else:
            raise NotApplicable(f"input {given.name} is drawn of no such type")
    return feeds


def _sizes(open_dims: Mapping[str, Sequence[str | None]], values: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, dims in open_dims.items():
        shape = np.shape(values[name])
        if len(shape) == len(dims):
            found |= {d: n for d, n in zip(dims, shape, strict=True) if d is not None}
    return found
