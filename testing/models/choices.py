"""Choices for a model and each of its parts, from a random generator or from earlier choices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from msgspec import Struct

T = TypeVar("T")
Key = tuple[str, int]
"""The scope of a choice, and its index in that scope."""
DrawBelow = Callable[[int], int]
"""Returns a number from 0 up to its argument, exclusive."""
NO_CHOICES: Mapping[Key, int] = MappingProxyType({})


class Choices:
    """Choices among a few options, the first of which is the simplest; `recorded` has their numbers, in order.

    The number with the same scope and index in `previous` is chosen again if it is valid, otherwise `draw_below` draws
    one.
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
        """Open a scope for the choices of one part of the model, which can be replaced independently of others."""
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


class Distribution(Struct, frozen=True):
    """Frequencies of features that are rare in most models and common in some, as 1 in n (0: never), and flags.

    Each field has its levels. Open operands may be constants, existing values, or computed: `extra_producers` by
    operators that the rule's code names, `shapes_from_inputs` from the dims of an input. Indices, axes and extents may
    be inputs (`unknown_parameters`) or empty (`empty_lists`), and indices may be equal (`repeated_indices`). Constants
    may be `overridable_constants`, attributes `non_default_attributes`. `zero_dims`: dims may be 0; `equal_dims`: all
    dims are equal; `large_dims`: one dim may be large; `filling`: the elements of a constant are equal, arbitrary, or
    all different; `large_halves`: float16 numbers are large.
    """

    constant_operands: Annotated[int, 0, 2, 1, 5]
    reused_values: Annotated[int, 0, 2, 6]
    extra_producers: Annotated[int, 0, 2, 3]
    overridable_constants: Annotated[int, 0, 0, 2]
    non_default_attributes: Annotated[int, 0, 0, 0, 4]
    shapes_from_inputs: Annotated[int, 0, 0, 2, 0]
    unknown_parameters: Annotated[int, 0, 0, 2]
    zero_dims: Annotated[bool, False, False, False, False, False, True]
    equal_dims: Annotated[bool, False, False, True]
    large_dims: Annotated[int, 0, 0, 0, 2]
    empty_lists: Annotated[int, 0, 0, 2]
    repeated_indices: Annotated[int, 0, 2]
    filling: Annotated[str, "plain", "any", "various"]
    large_halves: Annotated[bool, False, True]


HINTS = get_type_hints(Distribution, include_extras=True)
LEVELS: Mapping[str, tuple[Any, ...]] = MappingProxyType({name: get_args(hint)[1:] for name, hint in HINTS.items()})


def draw_distribution(choices: Choices) -> Distribution:
    """The distribution for a model; each field is a separate choice, `distribution/<field>`."""
    drawn: dict[str, Any] = {}
    for name, levels in LEVELS.items():
        with choices.scope(f"distribution/{name}"):
            drawn[name] = choices.pick(levels)
    return Distribution(**drawn)
