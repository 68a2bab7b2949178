"""Hypothesis strategies for cases of a rule, in which it must, may or must not fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
from hypothesis import strategies as st

from ..core.rewriting.rules import Rule
from .case import Case
from .models.choices import Choices, DrawBelow
from .models.dictionary import dictionary_of
from .models.model_builder import GenerationError
from .models.model_generator import generate_case

ChoiceSequence = tuple[int, ...]
DrawInteger = Callable[[st.SearchStrategy[int]], int]
MUTATION_PERIOD = 40
"""Of so many choices one becomes the simplest, and one is drawn anew, on average."""


def cases(rule: Rule, examples: Sequence[onnx.ModelProto] = ()) -> st.SearchStrategy[Case]:
    """A strategy for models with the pattern of `rule`, or variants of `examples`.

    Hypothesis draws one number after another, the choice sequence of a case.
    """
    return _cases(rule, examples, lambda draw: lambda count: draw(st.integers(0, count - 1)))


def mutated_cases(
    rule: Rule, choice_sequence: ChoiceSequence, examples: Sequence[onnx.ModelProto] = ()
) -> st.SearchStrategy[Case]:
    """The case of `choice_sequence` with some choices changed; hypothesis shrinks them to the simplest choices."""

    def mutated(draw: DrawInteger) -> DrawBelow:
        numbers = iter(choice_sequence)

        def below(count: int) -> int:
            number, turn = next(numbers, -1), draw(st.integers(0, MUTATION_PERIOD))
            if turn == 0:
                return 0
            return number if turn < MUTATION_PERIOD and 0 <= number < count else draw(st.integers(0, count - 1))

        return below

    return _cases(rule, examples, mutated)


def _cases(
    rule: Rule, examples: Sequence[onnx.ModelProto], choose: Callable[[DrawInteger], DrawBelow]
) -> st.SearchStrategy[Case]:
    words = dictionary_of(rule)

    @st.composite
    def drawn(draw: DrawInteger) -> Case | None:
        try:
            return generate_case(rule, Choices(choose(draw)), words, examples)
        except GenerationError:
            return None

    found: st.SearchStrategy[Any] = drawn().filter(lambda case: case is not None)
    return found
