"""How one model differs from others throughout: what is rare in most is common in some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .choices import Choices


@dataclass(frozen=True, slots=True)
class Mood:
    """One in so many open operands is a constant, a value that is there already, or computed; 0 stands for none.

    `feeders` are made by operators that the rule's code names, `computed` ones are the dims of an input. Of constants
    some may be `overridable`, of attributes some are `strays` off their defaults. `zeros`: dims may be 0; `square`: all
    dims are the same; `plain`: a constant is one number; `various`: its elements differ; `large`: half floats are near
    the end of their type.
    """

    constants: int
    repeats: int
    feeders: int
    overridable: int
    strays: int
    computed: int
    zeros: bool
    square: bool
    plain: bool
    various: bool
    large: bool


LEVELS: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "constants": (0, 2, 1, 5),
    "repeats": (0, 2, 6),
    "feeders": (0, 2, 3),
    "overridable": (0, 0, 2),
    "strays": (0, 0, 0, 4),
    "computed": (0, 0, 2, 0),
    "zeros": (False,) * 5 + (True,),
    "square": (False, False, True),
    "filling": ("plain", "any", "various"),
    "large": (False, True),
})  # fmt: skip


def mood(choices: Choices) -> Mood:
    """The mood of a model; each trait is a choice of its own, `mood/<trait>`."""
    drawn: dict[str, Any] = {}
    for trait, levels in LEVELS.items():
        with choices.about(f"mood/{trait}"):
            drawn[trait] = choices.pick(levels)
    filling = drawn.pop("filling")
    return Mood(**drawn, plain=filling == "plain", various=filling == "various")
