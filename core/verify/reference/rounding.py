"""Floats evaluated as float64: rounding back to a narrower type, and perturbation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np

from ...operators.element_types import NUMPY_DTYPES, Array

Policy = Callable[[Array, int, bool], Array]
"""Makes the result of an op, given in float64, the value that others read.

It is given the element type in the model, and whether the op is exact: it moves or selects elements.
"""


def narrowed(value: Any, element_type: int) -> Any:
    """A value with its float64 numbers in their type in the model; parts of sequences too."""
    if isinstance(value, list):
        return [narrowed(v, element_type) for v in cast("Sequence[Any]", value)]
    if element_type not in NUMPY_DTYPES or not isinstance(value, np.ndarray):
        return value
    array = cast("Array", value)
    return array.astype(NUMPY_DTYPES[element_type]) if array.dtype == np.float64 else array


def unchanged(array: Array, element_type: int, is_exact: bool) -> Array:
    """The result itself."""
    return array


def rounded(array: Array, element_type: int, is_exact: bool) -> Array:
    """The result rounded to its type in the model, as if that were computed with: to infinity beyond its range."""
    dtype = NUMPY_DTYPES.get(element_type, np.dtype(np.float64))
    return array.astype(dtype).astype(np.float64, copy=False)


def of_matrices(policy: Policy) -> Policy:
    """The policy for constants of two dims or more; vectors may be bounds, exponents or sizes."""
    return lambda array, element_type, is_exact: policy(array, element_type, is_exact) if array.ndim > 1 else array


def perturbation(share: float | None, seed: int, *, keep_numbers: bool, times: int = 1) -> Policy:
    """A policy that moves inexact results by a share of themselves, up or down at random.

    A share of None is `times` that by which their type rounds at most.

    With `keep_numbers` those that float32 represents stay as they are: whole ones among them may be sizes.
    """
    rng = np.random.default_rng(seed)

    def perturbed(array: Array, element_type: int, is_exact: bool) -> Array:
        if is_exact:
            return array
        dtype = NUMPY_DTYPES.get(element_type, np.dtype(np.float32))
        relative = times * float(ml_dtypes.finfo(dtype).eps) / 2 if share is None else share
        moved = array * (1 + relative * (2 * rng.integers(0, 2, array.shape, np.int8) - 1))
        return np.where(array == array.astype(np.float32), array, moved) if keep_numbers else moved

    return perturbed
