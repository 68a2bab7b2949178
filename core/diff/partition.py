"""Things that belong together."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T", bound=tuple[int, ...])


class Partition(Generic[T]):
    """Disjoint sets that are joined; the least member stands for a set.

    Source: Galler and Fischer, "An Improved Equivalence Algorithm", 1964.
    """

    def __init__(self) -> None:
        self._above: dict[T, T] = {}

    def root(self, x: T) -> T:
        """What stands for the set of `x`."""
        path = [x]
        while (up := self._above.get(path[-1], path[-1])) != path[-1]:
            path.append(up)
        self._above.update(dict.fromkeys(path[:-1], path[-1]))
        return path[-1]

    def join(self, x: T, y: T) -> bool:
        """Make one set of two; False if they are one already."""
        x, y = sorted((self.root(x), self.root(y)))
        if x != y:
            self._above[y] = x
        return x != y
