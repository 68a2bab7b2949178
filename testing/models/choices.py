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
Below = Callable[[int], int]
"""Gives a number from 0 to below its argument."""
NOTHING: Mapping[Key, int] = MappingProxyType({})


class Choices:
    """Choices among a few; the first is always the simplest. `made` holds the numbers they came from, in order.

    What was chosen `before` about the same thing is chosen again, where it fits; else `below` chooses.
    """

    def __init__(self, below: Below, before: Mapping[Key, int] = NOTHING) -> None:
        self._below, self._before = below, before
        self._about = ""
        self._counts: Counter[str] = Counter()
        self.made: dict[Key, int] = {}

    @property
    def tape(self) -> tuple[int, ...]:
        """The numbers in the order in which they were asked for."""
        return tuple(self.made.values())

    @contextmanager
    def about(self, part: str) -> Generator[None]:
        """What is chosen in here is about a part of the model, and can be chosen anew apart from others."""
        outer = self._about
        self._about = f"{outer}/{part}"
        try:
            yield
        finally:
            self._about = outer

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        if count < 2:
            return 0
        key = (self._about, self._counts[self._about])
        self._counts[self._about] += 1
        number = self._before.get(key, count)
        self.made[key] = number if number < count else self._below(count)
        return self.made[key]

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`."""
        return options[self.below(len(options))]

    def one_in(self, count: int) -> bool:
        """True once in `count` times; `count` 0 stands for never."""
        return count > 0 and self.below(count) == count - 1

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of `items` in some order; as they stand is the simplest."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in items]

    def some(self, items: Sequence[T]) -> list[T]:
        """One or more of `items`, in their order."""
        count = 1 + self.below(len(items))
        kept = sorted(self.shuffled(range(len(items)))[:count])
        return [items[i] for i in kept]


def replayed(tape: Sequence[int], after: Below | None = None) -> Choices:
    """The choices on a tape, in order; where it does not fit or is at its end, those of `after`, or the simplest."""
    numbers = iter(tape)

    def below(count: int) -> int:
        number = next(numbers, -1)
        if 0 <= number < count:
            return number
        return 0 if after is None else after(count)

    return Choices(below)
