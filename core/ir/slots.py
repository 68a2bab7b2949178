"""Values in an order that matters, of which some are exchanged for others: outputs of a graph, edges of a wide op."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Slots(Generic[T]):
    """Values in order, perhaps with repetitions; finding and exchanging one is O(its repetitions)."""

    __slots__ = ("_slots", "_values")

    def __init__(self, values: Iterable[T] = ()) -> None:
        self._values = list(values)
        self._slots: dict[T, list[int]] = {}
        for i, v in enumerate(self._values):
            self._slots.setdefault(v, []).append(i)

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def __contains__(self, value: T) -> bool:
        return value in self._slots

    def swap(self, old: T, new: T) -> None:
        """Let `new` stand where `old` was."""
        slots = self._slots.pop(old, [])
        for i in slots:
            self._values[i] = new
        if slots:
            self._slots.setdefault(new, []).extend(slots)
