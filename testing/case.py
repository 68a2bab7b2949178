"""Test cases for rules."""

from __future__ import annotations

from dataclasses import dataclass

import onnx


@dataclass(frozen=True, slots=True)
class Case:
    """A model with a match of a rule's pattern.

    `place` is the name of the root's output; `traits` describe special features of the model ("inside an If", "an inner
    value is an output", "a dim of 0"). With a `no_fire_reason`, the rule must not fire at `place`.
    """

    model: onnx.ModelProto
    place: str
    traits: tuple[str, ...] = ()
    no_fire_reason: str = ""
