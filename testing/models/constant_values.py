"""Values of generated constants: uniform, uniform but for one element, or distinct."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .choices import Choices
from .dictionary import Dictionary
from .distribution import Distribution
from .model_builder import Array, Shape

STRINGS = ("a", "", "b", "nan")
FRACTIONS = (1.5, -0.5, 0.25, 2.0, -1.0, 0.75, -2.25, 3.0, 1.0, 0.5)
LARGE_HALF = 300.0  # its square overflows in float16
DISTINCT = 3  # the form in which elements differ


def constant_array(
    choices: Choices,
    dictionary: Dictionary,
    dtype: int,
    shape: Shape,
    distribution: Distribution,
    *,
    positive: bool = False,
) -> Array:
    """An array of one number of the dictionary, with or without one other element, or of distinct numbers."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == TensorProto.STRING:
        return np.array([choices.pick(STRINGS) for _ in range(count)], object).reshape(shape)
    kind = np.dtype(helper.tensor_dtype_to_np_dtype(dtype))
    form = (
        0
        if distribution.uniform_constants or count == 1
        else DISTINCT
        if distribution.distinct_elements
        else choices.draw_below(4)
    )
    number = (
        LARGE_HALF if distribution.large_halves and dtype == TensorProto.FLOAT16 else dictionary.draw_number(choices)
    )
    values = np.full(count, number, np.float64)
    if form > 1:
        various = np.resize(np.roll(FRACTIONS, -choices.draw_below(len(FRACTIONS))), count)
        values = various if form == DISTINCT else np.where(np.arange(count) == count - 1, various, values)
    if kind.kind == "b":
        return (values > 0).reshape(shape)
    if kind.kind in "iu":
        whole = np.clip(np.round(values), -100, 100)
        return (np.abs(whole) if kind.kind == "u" else whole).astype(kind).reshape(shape)
    with np.errstate(over="ignore"):  # of half floats
        return (np.abs(values) + 0.5 * (values == 0) if positive else values).astype(kind).reshape(shape)
