"""Where a model's random choices come from: a generator of numbers, earlier choices, or hypothesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")
Key = tuple[str, int]
"""What a choice is about, and how many were made about it before."""
DrawBelow = Callable[[int], int]
"""Gives a number from 0 to below its argument."""
NO_CHOICES: Mapping[Key, int] = MappingProxyType({})


class Choices:
    """Choices among a few; the first is always the simplest. `recorded` holds the numbers they came from, in order.

    What was chosen `previous` about the same thing is chosen again, where it fits; else `draw_below` chooses.
    """

    def __init__(self, draw_below: DrawBelow, previous: Mapping[Key, int] = NO_CHOICES) -> None:
        self._draw_below, self._previous = draw_below, previous
        self._scope = ""
        self._counts: Counter[str] = Counter()
        self.recorded: dict[Key, int] = {}

    @property
    def sequence(self) -> tuple[int, ...]:
        """The numbers in the order in which they were asked for."""
        return tuple(self.recorded.values())

    @contextmanager
    def scope(self, part: str) -> Generator[None]:
        """What is chosen in here is about a part of the model, and can be chosen anew apart from others."""
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
        """True once in `count` times; `count` 0 stands for never."""
        return count > 0 and self.draw_below(count) == count - 1

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of `items` in some order; as they stand is the simplest."""
        rest = list(items)
        return [rest.pop(self.draw_below(len(rest))) for _ in items]

    def subset(self, items: Sequence[T]) -> list[T]:
        """One or more of `items`, in their order."""
        count = 1 + self.draw_below(len(items))
        kept = sorted(self.shuffled(range(len(items)))[:count])
        return [items[i] for i in kept]


def replay(sequence: Sequence[int], fallback: DrawBelow | None = None) -> Choices:
    """The choices on a tape, in order; where it does not fit or is at its end, those of `fallback`, or the simplest."""
    numbers = iter(sequence)

    def below(count: int) -> int:
        number = next(numbers, -1)
        if 0 <= number < count:
            return number
        return 0 if fallback is None else fallback(count)

    return Choices(below)
