"""A model on which a rule is tried."""

from __future__ import annotations

from dataclasses import dataclass

import onnx


@dataclass(frozen=True, slots=True)
class Case:
    """A model that holds what a rule looks for.

    `place` is the name of the value that the pattern's root makes; `traits` say in words what is special about the
    model ("inside an If", "the middle value is an output", "a dim of 0"). Where `no_fire_reason` gives a reason, the
    rule is not to fire at `place`.
    """

    model: onnx.ModelProto
    place: str
    traits: tuple[str, ...] = ()
    no_fire_reason: str = ""
