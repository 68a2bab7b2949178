"""What two sequences have in common, in order: a text diff's part of the work.

Sources: Bram Cohen's patience diff (2008), for what stands in both once; E. Myers, "An O(ND) Difference Algorithm
and Its Variations", 1986, for the rest, cut short where the two have little in common.

Pairs of ops: which op of one graph is which of the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

from ...core.ir.op import Op
from .indexed_graph import IndexedGraph

MAX_EDITS = 48  # looked for at once; what is cut short goes on from the furthest point reached

Pair = tuple[int, int]


def common_entries(a: Sequence[int], b: Sequence[int]) -> list[Pair]:
    """Positions of equal entries, rising in both. Not always the most there can be. O(entries * MAX_EDITS)."""
    shared = set(a) & set(b)
    left = [i for i, token in enumerate(a) if token in shared]
    right = [j for j, token in enumerate(b) if token in shared]
    x, y = [a[i] for i in left], [b[j] for j in right]
    pairs: list[Pair] = []
    for (i, j), (k, m) in gaps(unique_common_entries(x, y), len(x), len(y)):
        pairs += ((i + p, j + q) for p, q in shortest_edit_matches(x[i:k], y[j:m]))
    return [(left[i], right[j]) for i, j in sorted([*pairs, *unique_common_entries(x, y)])]


def unique_common_entries(a: Sequence[int], b: Sequence[int]) -> list[Pair]:
    """Entries that both have once, as far as their order agrees."""
    once = Counter(a), Counter(b)
    places = {token: j for j, token in enumerate(b) if once[1][token] == 1}
    return longest_increasing(
        (i, places[token]) for i, token in enumerate(a) if once[0][token] == 1 and token in places
    )


def longest_increasing(pairs: Iterable[Pair]) -> list[Pair]:
    """The longest part of `pairs`, which rise on the left, that rises on the right too. O(n log n)."""
    ends: list[int] = []  # the least right end of a part, by length
    found: list[tuple[Pair, int]] = []  # each pair with what comes before it in its part
    last: list[int] = []
    for pair in pairs:
        length = bisect_left(ends, pair[1])
        found.append((pair, last[length - 1] if length else -1))
        ends[length : length + 1] = [pair[1]]
        last[length : length + 1] = [len(found) - 1]
    part: list[Pair] = []
    at = last[-1] if last else -1
    while at >= 0:
        pair, at = found[at]
        part.append(pair)
    return part[::-1]


def gaps(anchors: Iterable[Pair], m: int, n: int) -> Iterable[tuple[Pair, Pair]]:
    """The stretches of two sequences of lengths `m` and `n` between pairs that rise: begins and ends."""
    i = j = 0
    for p, q in (*anchors, (m, n)):
        if p > i and q > j:
            yield (i, j), (p, q)
        i, j = p + 1, q + 1


def shortest_edit_matches(a: Sequence[int], b: Sequence[int]) -> list[Pair]:
    """Positions of equal entries along a shortest way from `a` to `b`, or along pieces of MAX_EDITS of one."""
    pairs: list[Pair] = []
    i = j = 0
    while i < len(a) and j < len(b):
        steps, (i, j) = _edit_path(a, b, i, j)
        pairs += steps
    return pairs


def _edit_path(a: Sequence[int], b: Sequence[int], i: int, j: int) -> tuple[list[Pair], Pair]:
    """The equal entries from (i, j) on to the end or as far as the edits reach, and that point."""
    m, n = len(a) - i, len(b) - j
    reached = {1: 0}  # the furthest on each diagonal
    rounds: list[dict[int, int]] = []
    for edits in range(MAX_EDITS + 1):
        rounds.append(dict(reached))
        for diagonal in range(-edits, edits + 1, 2):
            x = _diagonal_entry(reached, diagonal, edits)
            y = x - diagonal
            while x < m and y < n and a[i + x] == b[j + y]:
                x, y = x + 1, y + 1
            reached[diagonal] = x
            if x >= m and y >= n:
                return _backtrack(rounds, diagonal, x, (i, j)), (i + x, j + y)
    inside = [d for d, x in reached.items() if x <= m and x - d <= n and (d + MAX_EDITS) % 2 == 0]
    best = max(inside, key=lambda d: (2 * reached[d] - d, -abs(d)))
    x = reached[best]
    return _backtrack(rounds, best, x, (i, j)), (i + x, j + x - best)


def _diagonal_entry(reached: dict[int, int], diagonal: int, edits: int) -> int:
    """Where a diagonal is entered: by an insertion from above, or a deletion from the left."""
    down = diagonal == -edits or (diagonal != edits and reached[diagonal - 1] < reached[diagonal + 1])
    return reached[diagonal + 1] if down else reached[diagonal - 1] + 1


def _backtrack(rounds: list[dict[int, int]], diagonal: int, x: int, start: Pair) -> list[Pair]:
    """The equal entries on the way to (x, x - diagonal), back through the rounds."""
    steps: list[Pair] = []
    for edits in reversed(range(len(rounds))):
        reached = rounds[edits]
        entry = _diagonal_entry(reached, diagonal, edits)
        steps += ((start[0] + p, start[1] + p - diagonal) for p in reversed(range(entry, x)))
        down = diagonal == -edits or (diagonal != edits and reached[diagonal - 1] < reached[diagonal + 1])
        diagonal += 1 if down else -1
        x = reached[diagonal]
    return steps[::-1]


Keys = tuple[Sequence[int], Sequence[int]]
AnyKeys = tuple[Sequence[Hashable], Sequence[Hashable]]


class Matching:
    """Pairs of ops, by number. An op has one partner at most."""

    def __init__(self, a: IndexedGraph, b: IndexedGraph) -> None:
        self.sides = (a, b)
        self.partners: tuple[list[int | None], list[int | None]] = ([None] * len(a), [None] * len(b))

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """The pairs, in the order of the first graph."""
        return ((i, j) for i, j in enumerate(self.partners[0]) if j is not None)

    def match(self, i: int, j: int) -> None:
        """Match two ops."""
        self.partners[0][i], self.partners[1][j] = j, i

    def unmatch(self, i: int, j: int) -> None:
        """Match two ops no more."""
        self.partners[0][i] = self.partners[1][j] = None

    @property
    def has_unmatched(self) -> bool:
        """Whether both sides have ops without a partner."""
        return all(None in partners for partners in self.partners)

    def unmatched(self, side: int) -> list[int]:
        """The ops of a side that have no partner."""
        return [i for i, partner in enumerate(self.partners[side]) if partner is None]

    def match_equal(self, keys: AnyKeys) -> None:
        """Match open ops of equal keys in order; if one side has more of them, those of one name first."""
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for side in (0, 1):
            for i in self.unmatched(side):
                groups.setdefault(keys[side][i], ([], []))[side].append(i)
        for left, right in groups.values():
            if left and right and len(left) != len(right):
                self._match_same_name(left, right)
            still = [i for i in left if self.partners[0][i] is None], [j for j in right if self.partners[1][j] is None]
            for i, j in zip(*still, strict=False):
                self.match(i, j)

    def _match_same_name(self, left: Sequence[int], right: Sequence[int]) -> None:
        a, b = self.sides
        namesakes = {result_name(b.ops[j]): j for j in reversed(right)}
        for i in left:
            j = namesakes.pop(result_name(a.ops[i]), None)
            if j is not None:
                self.match(i, j)

    def align(self, keys: Keys, *, only_unique: bool = False) -> None:
        """Match open ops of equal keys where their order agrees with that of the pairs there are."""
        found = unique_common_entries if only_unique else common_entries
        a, b = self.sides
        for (i, j), (k, m) in list(gaps(longest_increasing(self.pairs), len(a), len(b))):
            left = [x for x in range(i, k) if self.partners[0][x] is None]
            right = [y for y in range(j, m) if self.partners[1][y] is None]
            for p, q in found([keys[0][x] for x in left], [keys[1][y] for y in right]):
                self.match(left[p], right[q])


def result_name(op: Op) -> str:
    """What the first output of an op that has a name is called; the name of an op that has none."""
    return next((v.name for v in op.outputs if v.name), op.name)
