"""Questions to z3 and its answers, as they are passed between processes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
from msgspec import Struct

from .obligation import Obligation


class AnswerKind(StrEnum):
    """Outcomes of a question."""

    PROVED = "proved"
    FEWER_INPUTS = "fewer inputs"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


class Question(Struct, frozen=True):
    """Whether an obligation holds at `sizes`, with floats as reals or bit for bit; z3 gets `seconds` for an element.

    `by_formula`: also use the formulas of operators that are otherwise unknown functions of real numbers.
    """

    obligation: Obligation
    sizes: tuple[Mapping[str, int], ...]
    over_reals: bool
    seconds: float
    memory: int
    by_formula: bool = False


class Answer(Struct, frozen=True):
    """The outcome; the models were compared at `sizes`.

    `inputs` are candidates for a counterexample, at which terms differ or are no longer defined. They may depend on a
    value that z3 chose for an unknown function, so only running both models decides.
    """

    outcome: AnswerKind
    reason: str = ""
    sizes: tuple[Mapping[str, int], ...] = ()
    inputs: Mapping[str, np.ndarray[Any, Any]] | None = None
