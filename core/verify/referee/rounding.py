"""Floats as float64: conversion, rounding back to a narrower type, and perturbation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
from onnx import TensorProto

from .kernel_call import Array

NUMPY_DTYPES: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.DOUBLE: np.dtype(np.float64),
}
"""The float types whose values are evaluated as float64; narrower ones are exact codes, as integers are."""
WIDENED = frozenset(NUMPY_DTYPES.values())
Policy = Callable[[Array, int], Array]
"""Makes the result of an op, given in float64 with its element type in the model, the value that others read."""


def widened(value: Any) -> Any:
    """A value with its floats as float64 and its complex numbers as complex128; parts of sequences and maps too."""
    if isinstance(value, list):
        return [widened(v) for v in cast("Sequence[Any]", value)]
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        if array.dtype in WIDENED:
            return array.astype(np.float64, copy=False)
        return array.astype(np.complex128, copy=False) if array.dtype.kind == "c" else array
    return widened(np.asarray(cast("Any", value))) if isinstance(value, np.generic) else value


def exact(array: Array, element_type: int) -> Array:
    """The result itself."""
    return array


def rounded(array: Array, element_type: int) -> Array:
    """The result rounded to its type in the model, as if that were computed with: to infinity beyond its range."""
    dtype = NUMPY_DTYPES.get(element_type, np.dtype(np.float64))
    return array.astype(dtype).astype(np.float64, copy=False)


def perturbation(relative: float, seed: int) -> Policy:
    """A policy that moves each result by `relative` of itself, up or down at random.

    Numbers that float32 represents stay as they are: most of them are exact, and integers among them may be sizes.
    """
    rng = np.random.default_rng(seed)

    def perturbed(array: Array, element_type: int) -> Array:
        moved = array * (1 + rng.choice((-relative, relative), array.shape))
        return np.where(array == array.astype(np.float32), array, moved)

    return perturbed
