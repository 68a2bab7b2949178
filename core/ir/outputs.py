"""The outputs of a graph: an ordered list that knows at once whether a value is among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .values import Value


class Outputs:
    """Values in order, perhaps with repetitions; finding and exchanging one is O(its repetitions)."""

    __slots__ = ("_slots", "_values")

    def __init__(self, values: Iterable[Value] = ()) -> None:
        self._values = list(values)
        self._slots: dict[Value, list[int]] = {}
        for i, v in enumerate(self._values):
            self._slots.setdefault(v, []).append(i)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values)

    def __contains__(self, value: Value) -> bool:
        return value in self._slots

    def swap(self, old: Value, new: Value) -> None:
        """Let `new` stand where `old` was."""
        slots = self._slots.pop(old)
        for i in slots:
            self._values[i] = new
        self._slots.setdefault(new, []).extend(slots)

    @property
    def is_consistent(self) -> bool:
        """Whether the list and what is known of it agree."""
        slots = {i: v for v, places in self._slots.items() for i in places}
        return slots == dict(enumerate(self._values))
