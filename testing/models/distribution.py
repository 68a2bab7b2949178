"""Model-wide frequencies of features that are rare in most models and common in some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .choices import Choices


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
