"""Model-wide frequencies of features that are rare in most models and common in some, and constants drawn by them"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from .choices import Choices
from .dictionary import Dictionary
from .model_builder import Array, Shape


@dataclass(frozen=True, slots=True)
class Distribution:
    """Frequencies of features, as 1 in n (0: never), and flags for the whole model.

    Open operands may be constants, existing values, or computed: `extra_producers` by operators that the rule's code
    names, `shapes_from_inputs` as dims of an input. Constants may be `overridable_constants`, attributes
    `non_default_attributes`. `zero_dims`: dims may be 0; `equal_dims`: all dims are equal; `uniform_constants`: all
    elements of a constant are equal; `distinct_elements`: they differ; `large_halves`: float16 numbers are large.
    """

    constant_operands: int
    reused_values: int
    extra_producers: int
    overridable_constants: int
    non_default_attributes: int
    shapes_from_inputs: int
    zero_dims: bool
    equal_dims: bool
    uniform_constants: bool
    distinct_elements: bool
    large_halves: bool


LEVELS: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "constant_operands": (0, 2, 1, 5),
    "reused_values": (0, 2, 6),
    "extra_producers": (0, 2, 3),
    "overridable_constants": (0, 0, 2),
    "non_default_attributes": (0, 0, 0, 4),
    "shapes_from_inputs": (0, 0, 2, 0),
    "zero_dims": (False,) * 5 + (True,),
    "equal_dims": (False, False, True),
    "filling": ("plain", "any", "various"),
    "large_halves": (False, True),
})  # fmt: skip


def draw_distribution(choices: Choices) -> Distribution:
    """The distribution for a model; each field is a choice of its own, `distribution/<field>`."""
    drawn: dict[str, Any] = {}
    for field, levels in LEVELS.items():
        with choices.scope(f"distribution/{field}"):
            drawn[field] = choices.pick(levels)
    filling = drawn.pop("filling")
    return Distribution(**drawn, uniform_constants=filling == "plain", distinct_elements=filling == "various")


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
