"""Choices in the generation of a model, from a random generator, earlier choices, or hypothesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")
Key = tuple[str, int]
"""The scope of a choice, and its index in that scope."""
DrawBelow = Callable[[int], int]
"""Returns a number from 0 up to its argument, exclusive."""
NO_CHOICES: Mapping[Key, int] = MappingProxyType({})


class Choices:
    """Choices among a few options, the first of which is the simplest; `recorded` has their numbers, in order.

    The number in `previous` of the same scope and index is chosen again if it is valid, otherwise `draw_below` draws.
    """

    def __init__(self, draw_below: DrawBelow, previous: Mapping[Key, int] = NO_CHOICES) -> None:
        self._draw_below, self._previous = draw_below, previous
        self._scope = ""
        self._counts: Counter[str] = Counter()
        self.recorded: dict[Key, int] = {}

    @property
    def sequence(self) -> tuple[int, ...]:
        """The numbers in the order of the choices."""
        return tuple(self.recorded.values())

    @contextmanager
    def scope(self, part: str) -> Generator[None]:
        """A scope for the choices of one part of the model, which can be replaced independently of others."""
        outer = self._scope
        self._scope = f"{outer}/{part}"
        try:
            yield
        finally:
            self._scope = outer

    def draw_below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        if count < 2:
            return 0
        key = (self._scope, self._counts[self._scope])
        self._counts[self._scope] += 1
        number = self._previous.get(key, count)
        self.recorded[key] = number if number < count else self._draw_below(count)
        return self.recorded[key]

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`."""
        return options[self.draw_below(len(options))]

    def one_in(self, count: int) -> bool:
        """True with probability 1 / `count`; never for a `count` of 0."""
        return count > 0 and self.draw_below(count) == count - 1

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of `items` in some order; the given order is the simplest."""
        rest = list(items)
        return [rest.pop(self.draw_below(len(rest))) for _ in items]

    def subset(self, items: Sequence[T]) -> list[T]:
        """One or more of `items`, in their order."""
        count = 1 + self.draw_below(len(items))
        kept = sorted(self.shuffled(range(len(items)))[:count])
        return [items[i] for i in kept]
