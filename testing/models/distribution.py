"""Model-wide frequencies of features that are rare in most models and common in some, and constants drawn by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

import numpy as np
from onnx import TensorProto, helper

from .choices import Choices
from .dictionary import Dictionary
from .model_builder import Array, Shape


@dataclass(frozen=True, slots=True)
class Distribution:
    """Frequencies of features, as 1 in n (0: never), and flags for the whole model, each with its levels.

    Open operands may be constants, existing values, or computed: `extra_producers` by operators that the rule's code
    names, `shapes_from_inputs` as dims of an input. Indices, axes and extents may be inputs (`unknown_parameters`),
    none at all (`empty_lists`), and indices equal (`repeated_indices`). Constants may be `overridable_constants`,
    attributes `non_default_attributes`. `zero_dims`: dims may be 0; `equal_dims`: all dims are equal; `large_dims`: one
    dim may be large; `filling`: the elements of a constant are equal, any, or all different; `large_halves`: float16
    numbers are large.
    """

    constant_operands: Annotated[int, 0, 2, 1, 5]
    reused_values: Annotated[int, 0, 2, 6]
    extra_producers: Annotated[int, 0, 2, 3]
    overridable_constants: Annotated[int, 0, 0, 2]
    non_default_attributes: Annotated[int, 0, 0, 0, 4]
    shapes_from_inputs: Annotated[int, 0, 0, 2, 0]
    unknown_parameters: Annotated[int, 0, 0, 2]
    zero_dims: Annotated[bool, False, False, False, False, False, True]
    equal_dims: Annotated[bool, False, False, True]
    large_dims: Annotated[int, 0, 0, 0, 2]
    empty_lists: Annotated[int, 0, 0, 2]
    repeated_indices: Annotated[int, 0, 2]
    filling: Annotated[str, "plain", "any", "various"]
    large_halves: Annotated[bool, False, True]


HINTS = get_type_hints(Distribution, include_extras=True)
LEVELS: Mapping[str, tuple[Any, ...]] = MappingProxyType({name: get_args(hint)[1:] for name, hint in HINTS.items()})


def draw_distribution(choices: Choices) -> Distribution:
    """The distribution for a model; each field is a choice of its own, `distribution/<field>`."""
    drawn: dict[str, Any] = {}
    for name, levels in LEVELS.items():
        with choices.scope(f"distribution/{name}"):
            drawn[name] = choices.pick(levels)
    return Distribution(**drawn)


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
    if distribution.filling == "plain" or count == 1:
        form = 0
    else:
        form = DISTINCT if distribution.filling == "various" else choices.draw_below(4)
    is_large = distribution.large_halves and dtype == TensorProto.FLOAT16
    draw = dictionary.draw_integer if kind.kind in "iu" else dictionary.draw_number
    number = LARGE_HALF if is_large else draw(choices)
    values = np.full(count, number, np.float64)
    if form > 1:
        various = np.resize(np.roll(FRACTIONS, -choices.draw_below(len(FRACTIONS))), count)
        values = various if form == DISTINCT else np.where(np.arange(count) == count - 1, various, values)
    if kind.kind == "b":
        return (values > 0).reshape(shape)
    if kind.kind in "iu":
        return whole_numbers(values, kind).reshape(shape)
    with np.errstate(over="ignore"):  # of half floats
        return (np.abs(values) + 0.5 * (values == 0) if positive else values).astype(kind).reshape(shape)


def whole_numbers(values: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers rounded and clipped to an integer type, without signs for an unsigned type."""
    limits = np.iinfo(dtype)
    whole = np.round(np.abs(values) if dtype.kind == "u" else values)
    return np.clip(whole, limits.min, limits.max).astype(dtype)
