"""Mutation of a case: hypothesis changes a few of the choices that led to it, and simplifies others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
from hypothesis import strategies as st

from ..core.rewriting.rules import Rule
from .case import Case
from .models.choices import Choices
from .models.dictionary import dictionary_of
from .models.model_builder import GenerationError
from .models.model_generator import generate_case

ChoiceSequence = tuple[int, ...]
MUTATION_PERIOD = 40
"""Of so many choices one becomes the simplest, and one is made anew, on average."""


def mutated_cases(
    rule: Rule, choice_sequence: ChoiceSequence, examples: Sequence[onnx.ModelProto] = ()
) -> st.SearchStrategy[Case]:
    """The case of `choice_sequence` with some choices changed; hypothesis shrinks them to the simplest choices."""
    words = dictionary_of(rule)

    @st.composite
    def drawn(draw: Callable[[st.SearchStrategy[int]], int]) -> Case | None:
        numbers = iter(choice_sequence)

        def below(count: int) -> int:
            number, turn = next(numbers, -1), draw(st.integers(0, MUTATION_PERIOD))
            if turn == 0:
                return 0
            return number if turn < MUTATION_PERIOD and 0 <= number < count else draw(st.integers(0, count - 1))

        try:
            return generate_case(rule, Choices(below), words, examples)
        except GenerationError:
            return None

    found: st.SearchStrategy[Any] = drawn().filter(lambda case: case is not None)
    return found
