"""Cases around one: hypothesis changes a few of the choices that led to it, and makes simple what it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
from hypothesis import strategies as st

from ..core.rewriting.rules import Rule
from .case import Case
from .models.choices import Choices
from .models.dictionary import dictionary_of
from .models.model_builder import Unmade
from .models.model_generator import grown

Tape = tuple[int, ...]
KEPT = 40
"""Of so many choices one becomes the simplest, and one is made anew, on average."""


def around(rule: Rule, tape: Tape, examples: Sequence[onnx.ModelProto] = ()) -> st.SearchStrategy[Case]:
    """The case that comes of `tape`, with some of its choices changed. They shrink to the simplest choices."""
    words = dictionary_of(rule)

    @st.composite
    def drawn(draw: Callable[[st.SearchStrategy[int]], int]) -> Case | None:
        numbers = iter(tape)

        def below(count: int) -> int:
            number, turn = next(numbers, -1), draw(st.integers(0, KEPT))
            if turn == 0:
                return 0
            return number if turn < KEPT and 0 <= number < count else draw(st.integers(0, count - 1))

        try:
            return grown(rule, Choices(below), words, examples)
        except Unmade:
            return None

    found: st.SearchStrategy[Any] = drawn().filter(lambda case: case is not None)
    return found
