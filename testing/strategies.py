"""Hypothesis strategies for cases of a rule, in which it must, may or must not fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
from hypothesis import strategies as st

from ..core.rewriting.rules import Rule
from .case import Case
from .models.choices import Choices
from .models.dictionary import Dictionary, dictionary_of
from .models.model_builder import GenerationError
from .models.model_generator import generate_case


def cases(
    rule: Rule, dictionary: Dictionary | None = None, examples: Sequence[onnx.ModelProto] = ()
) -> st.SearchStrategy[Case]:
    """A strategy for models with the pattern of `rule`, or variants of `examples`.

    Hypothesis draws one number after another, the choice sequence of a case.
    """
    words = dictionary_of(rule) if dictionary is None else dictionary

    @st.composite
    def drawn(draw: Callable[[st.SearchStrategy[int]], int]) -> Case | None:
        choices = Choices(lambda count: draw(st.integers(0, count - 1)))
        try:
            return generate_case(rule, choices, words, examples)
        except GenerationError:
            return None

    found: st.SearchStrategy[Any] = drawn().filter(lambda case: case is not None)
    return found
