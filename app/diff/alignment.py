"""Alignment of two sequences by their equal entries.

Sources: Bram Cohen's patience diff (2008), for entries that are unique in both sequences; E. Myers, "An O(ND)
Difference Algorithm and Its Variations", 1986, for the others, with a limit on the number of edits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

MAX_EDITS = 48  # in one search; the next search starts at the furthest point reached

Pair = tuple[int, int]
_Part = tuple[Pair, "_Part | None"]  # a pair, and the pairs before it


def common_entries(a: Sequence[int], b: Sequence[int]) -> list[Pair]:
    """Find positions of equal entries, increasing in both sequences; not always the maximum. O(entries * MAX_EDITS)."""
    shared = set(a) & set(b)
    left = [i for i, token in enumerate(a) if token in shared]
    right = [j for j, token in enumerate(b) if token in shared]
    x, y = [a[i] for i in left], [b[j] for j in right]
    pairs: list[Pair] = []
    for (i, j), (k, m) in gaps(unique_common_entries(x, y), len(x), len(y)):
        pairs += ((i + p, j + q) for p, q in shortest_edit_matches(x[i:k], y[j:m]))
    return [(left[i], right[j]) for i, j in sorted([*pairs, *unique_common_entries(x, y)])]


def unique_common_entries(a: Sequence[int], b: Sequence[int]) -> list[Pair]:
    """Find positions of entries that are unique in both sequences, in increasing order."""
    once = Counter(a), Counter(b)
    places = {token: j for j, token in enumerate(b) if once[1][token] == 1}
    return longest_increasing(
        (i, places[token]) for i, token in enumerate(a) if once[0][token] == 1 and token in places
    )


def longest_increasing(pairs: Iterable[Pair]) -> list[Pair]:
    """Find the longest subsequence of `pairs`, sorted on the left, that also increases on the right. O(n log n)."""
    ends: list[int] = []  # the smallest right end of a subsequence, by length
    parts: list[_Part] = []  # that subsequence, last pair first
    for pair in pairs:
        length = bisect_left(ends, pair[1])
        ends[length : length + 1] = [pair[1]]
        parts[length : length + 1] = [(pair, parts[length - 1] if length else None)]
    return _unlinked(parts[-1] if parts else None)


def _unlinked(part: _Part | None) -> list[Pair]:
    found: list[Pair] = []
    while part is not None:
        pair, part = part
        found.append(pair)
    return found[::-1]


def gaps(anchors: Iterable[Pair], m: int, n: int) -> Iterable[tuple[Pair, Pair]]:
    """Yield the ranges between increasing pairs in sequences of lengths `m` and `n`, as starts and ends."""
    i = j = 0
    for p, q in (*anchors, (m, n)):
        if p > i and q > j:
            yield (i, j), (p, q)
        i, j = p + 1, q + 1


def shortest_edit_matches(a: Sequence[int], b: Sequence[int]) -> list[Pair]:
    """Find positions of equal entries along a shortest edit path from `a` to `b`, in pieces of MAX_EDITS edits."""
    pairs: list[Pair] = []
    i = j = 0
    while i < len(a) and j < len(b):
        part, (i, j) = _edit_path(a, b, i, j)
        pairs += _unlinked(part)
    return pairs


def _edit_path(a: Sequence[int], b: Sequence[int], i: int, j: int) -> tuple[_Part | None, Pair]:
    """Match equal entries from (i, j) on, as far as MAX_EDITS edits reach; return them and the last point."""
    reached: dict[int, tuple[int, _Part | None]] = {1: (i, None)}  # the furthest point on each diagonal
    for edits in range(MAX_EDITS + 1):
        for diagonal in range(-edits, edits + 1, 2):
            insertion = diagonal == -edits or (
                diagonal != edits and reached[diagonal - 1][0] < reached[diagonal + 1][0]
            )
            x, part = reached[diagonal + 1] if insertion else reached[diagonal - 1]
            x += not insertion
            y = x - i + j - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                part = (x, y), part
                x, y = x + 1, y + 1
            reached[diagonal] = x, part
            if x >= len(a) and y >= len(b):
                return part, (x, y)
    ends = {d: (x, x - i + j - d) for d, (x, _) in reached.items() if (d + MAX_EDITS) % 2 == 0}
    inside = [d for d, (x, y) in ends.items() if x <= len(a) and y <= len(b)]
    best = max(inside, key=lambda d: (sum(ends[d]), -abs(d)))
    return reached[best][1], ends[best]
