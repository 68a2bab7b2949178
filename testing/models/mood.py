"""How one model differs from others throughout: what is rare in most is common in some."""

from __future__ import annotations

from dataclasses import dataclass

from .choices import Choices


@dataclass(frozen=True, slots=True)
class Mood:
    """One in so many open operands is a constant, a value that is there already, or computed; 0 stands for none.

    `feeders` are made by operators that the rule's code names, `computed` ones are the dims of an input. Of constants
    some may be `overridable`, of attributes some are `strays` off their defaults. `zeros`: dims may be 0; `square`: all
    dims are the same; `plain`: a constant is one number.
    """

    constants: int
    repeats: int
    feeders: int
    overridable: int
    strays: int
    computed: int
    zeros: bool
    plain: bool
    square: bool


def mood(choices: Choices) -> Mood:
    """The mood of a model."""
    return Mood(
        constants=choices.pick((0, 2, 1, 5)),
        repeats=choices.pick((0, 2, 6)),
        feeders=choices.pick((0, 2, 3)),
        overridable=choices.pick((0, 0, 0, 3)),
        strays=choices.pick((0, 0, 0, 4)),
        computed=choices.pick((0, 0, 2, 0)),
        zeros=choices.one_in(6),
        plain=choices.below(2) == 0,
        square=choices.one_in(3),
    )
