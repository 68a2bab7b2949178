"""Pairs of ops: which op of one graph is which of the other."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from ..ir.op import Op
from .sequences import common, gaps, rising, unique
from .side import Side

Keys = tuple[Sequence[int], Sequence[int]]
AnyKeys = tuple[Sequence[Hashable], Sequence[Hashable]]


class Matching:
    """Pairs of ops, by number. An op has one partner at most."""

    def __init__(self, a: Side, b: Side) -> None:
        self.sides = (a, b)
        self.partners: tuple[list[int | None], list[int | None]] = ([None] * len(a), [None] * len(b))

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """The pairs, in the order of the first graph."""
        return ((i, j) for i, j in enumerate(self.partners[0]) if j is not None)

    def join(self, i: int, j: int) -> None:
        """Match two ops."""
        self.partners[0][i], self.partners[1][j] = j, i

    def part(self, i: int, j: int) -> None:
        """Match two ops no more."""
        self.partners[0][i] = self.partners[1][j] = None

    @property
    def is_open(self) -> bool:
        """Whether both sides have ops without a partner."""
        return all(None in partners for partners in self.partners)

    def open(self, side: int) -> list[int]:
        """The ops of a side that have no partner."""
        return [i for i, partner in enumerate(self.partners[side]) if partner is None]

    def join_equal(self, keys: AnyKeys) -> None:
        """Match open ops of equal keys in order; if one side has more of them, those of one name first."""
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for side in (0, 1):
            for i in self.open(side):
                groups.setdefault(keys[side][i], ([], []))[side].append(i)
        for left, right in groups.values():
            if left and right and len(left) != len(right):
                self._join_namesakes(left, right)
            still = [i for i in left if self.partners[0][i] is None], [j for j in right if self.partners[1][j] is None]
            for i, j in zip(*still, strict=False):
                self.join(i, j)

    def _join_namesakes(self, left: Sequence[int], right: Sequence[int]) -> None:
        a, b = self.sides
        namesakes = {result_name(b.ops[j]): j for j in reversed(right)}
        for i in left:
            j = namesakes.pop(result_name(a.ops[i]), None)
            if j is not None:
                self.join(i, j)

    def align(self, keys: Keys, *, only_unique: bool = False) -> None:
        """Match open ops of equal keys where their order agrees with that of the pairs there are."""
        found = unique if only_unique else common
        a, b = self.sides
        for (i, j), (k, m) in list(gaps(rising(self.pairs), len(a), len(b))):
            left = [x for x in range(i, k) if self.partners[0][x] is None]
            right = [y for y in range(j, m) if self.partners[1][y] is None]
            for p, q in found([keys[0][x] for x in left], [keys[1][y] for y in right]):
                self.join(left[p], right[q])


def result_name(op: Op) -> str:
    """What the first output of an op that has a name is called; the name of an op that has none."""
    return next((v.name for v in op.outputs if v.name), op.name)
