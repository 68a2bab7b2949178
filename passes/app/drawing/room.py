"""What room there is beside the boxes that stand already."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

ACROSS = 18.0
"""The room between boxes."""
USELESS = 2.0
"""Of room that is left between two boxes, as much is not worth to be remembered."""
ROUNDED = 1e-3
"""What sums of coordinates may be off by."""
BLOCK = 64


@dataclass(slots=True)
class Rows:
    """What is taken in each row, as separate stretches from left to right."""

    lefts: list[list[float]]
    rights: list[list[float]]

    @classmethod
    def empty(cls, count: int) -> Rows:
        """So many rows in which nothing stands."""
        return cls([[] for _ in range(count)], [[] for _ in range(count)])

    def nearest(self, top: int, halves: Sequence[float], wanted: float) -> float:
        """The centre nearest to the wanted one at which a column fits, to the right if in doubt."""
        right = self._pushed(top, halves, wanted, 1)
        left = self._pushed(top, halves, wanted, -1)
        return right if right - wanted <= wanted - left else left

    def _pushed(self, top: int, halves: Sequence[float], x: float, side: int) -> float:
        """The first centre at which nothing is in the way, going to one side. `settled` counts rows where it fits."""
        settled, row, count = 0, 0, len(halves)
        while settled < count:
            reach = halves[row] + ACROSS / 2
            end = self._end(top + row, x - reach, x + reach, side)
            if end is not None:
                x, settled = end + side * reach, 0
                continue
            settled += 1
            row = row + 1 if row + 1 < count else 0
        return x

    def _end(self, row: int, left: float, right: float, side: int) -> float | None:
        """Where what is in the way ends on that side; None if nothing is."""
        rights = self.rights[row]
        first = bisect_right(rights, left + ROUNDED)
        if first == len(rights) or self.lefts[row][first] >= right - ROUNDED:
            return None
        if side < 0:
            return self.lefts[row][first]
        return rights[bisect_left(self.lefts[row], right - ROUNDED) - 1]

    def take(self, top: int, halves: Sequence[float], x: float) -> None:
        """Let a column stand there."""
        for row, half in enumerate(halves, top):
            self._add(row, x - half - ACROSS / 2, x + half + ACROSS / 2)

    def _add(self, row: int, left: float, right: float) -> None:
        lefts, rights = self.lefts[row], self.rights[row]
        first = bisect_left(rights, left - USELESS)
        last = bisect_right(lefts, right + USELESS)
        if first < last:
            left, right = min(left, lefts[first]), max(right, rights[last - 1])
        lefts[first:last], rights[first:last] = [left], [right]


@dataclass(slots=True)
class Edge:
    """How far the rows reach to one side, kept in blocks too, so that many rows are asked at once."""

    reach: list[float]
    most: list[float] = field(init=False)
    whole: list[float] = field(init=False)  # what all rows of a block reach at least

    def __post_init__(self) -> None:
        self.most = [max(self.reach[i : i + BLOCK]) for i in range(0, len(self.reach), BLOCK)]
        self.whole = [float("-inf")] * len(self.most)

    def farthest(self, top: int, end: int) -> float:
        """How far any of the rows reaches."""
        first, last = -(-top // BLOCK), end // BLOCK
        if first >= last:
            return max(*self.reach[top:end], *self.whole[top // BLOCK : (end - 1) // BLOCK + 1])
        ends = [*self.reach[top : first * BLOCK], *self.reach[last * BLOCK : end]]
        return max(*self.most[first:last], *ends, *self.whole[top // BLOCK : (end - 1) // BLOCK + 1])

    def push(self, top: int, end: int, reach: float) -> None:
        """Let all of the rows reach that far; none reached farther."""
        first, last = -(-top // BLOCK), end // BLOCK
        if first >= last:
            first = last = end // BLOCK
            self._push_rows(top, end, reach)
        else:
            self._push_rows(top, first * BLOCK, reach)
            self._push_rows(last * BLOCK, end, reach)
        for block in range(first, last):
            self.most[block] = self.whole[block] = reach

    def _push_rows(self, top: int, end: int, reach: float) -> None:
        if top < end:
            self.reach[top:end] = [reach] * (end - top)
            for block in range(top // BLOCK, (end - 1) // BLOCK + 1):
                self.most[block] = max(self.most[block], reach)
