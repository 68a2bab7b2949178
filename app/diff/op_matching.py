"""The search for pairs of ops.

Ops are matched by what computes them and by what is done with their results: first with all they compute with, then
whatever the constants, then by type alone. What stands between two changes is aligned in order, as lines of text are.
Names only break ties. Every step is linear in the graphs, but for the sorting of neighbours.
"""

from __future__ import annotations

from hashlib import blake2b

from .edge_matching import Agreement
from .indexed_graph import Side
from .interface_changes import Ends
from .matching import Keys, Matching, result_name
from .numbering import Labels, Level, Numbering

REACH = 3  # how many ops around one its surroundings take in


def matched(a: Side, b: Side, numbering: Numbering, ends: Ends) -> Agreement:
    """Match the ops of two graphs. Which of them comes first makes no difference but for ties."""
    if _order(b) < _order(a):
        return _searched(b, a, numbering, ends.swapped()).swapped()
    return _searched(a, b, numbering, ends)


def _searched(a: Side, b: Side, numbering: Numbering, ends: Ends) -> Agreement:
    search = _Search(a, b, numbering, ends)
    search.follow()
    search.agreement.settle()
    if search.found.is_open:
        search.line_up()
        search.agreement.settle()
    return search.agreement


class _Search:
    def __init__(self, a: Side, b: Side, numbering: Numbering, ends: Ends) -> None:
        self.numbering = numbering
        self.known, self.asked = (
            [{v: numbering.number((what, n)) for v, n in held.items()} for held in given]
            for what, given in (("input", ends.numbers), ("output", ends.places))
        )
        self.labels: tuple[Labels, Labels] = (numbering.labels(a), numbering.labels(b))
        self.found = Matching(a, b)
        self.agreement = Agreement(self.found, numbering.contents, self.labels, ends)

    def follow(self) -> None:
        """Match along edges, from the ends and from ops that are like no other."""
        self.by_past_and_future(Level.CONTENT)
        self.found.align(self.at(Level.CONTENT), only_unique=True)
        for level in Level:
            self.by_past_and_future(level)

    def line_up(self) -> None:
        """Match what stands in the same order between what is matched, then along edges again."""
        self.found.align(self.surroundings(), only_unique=True)
        for level in Level:
            self.found.align(self.named(level), only_unique=True)
            self.found.align(self.at(level))
            self.by_past_and_future(level)

    def at(self, level: Level) -> Keys:
        """What ops are at a level."""
        return self.labels[0].at[level], self.labels[1].at[level]

    def named(self, level: Level) -> Keys:
        """What ops are at a level, and what they are called."""
        a, b = (
            [self.numbering.number((n, result_name(op))) for n, op in zip(labels.at[level], side.ops, strict=True)]
            for labels, side in zip(self.labels, self.found.sides, strict=True)
        )
        return a, b

    def surroundings(self) -> Keys:
        """What open ops are, and what is around them."""
        a, b = (
            self.numbering.surroundings(self.found.sides[s], self.at(Level.CONTENT)[s], self.found.open(s), REACH)
            for s in (0, 1)
        )
        return a, b

    def by_past_and_future(self, level: Level) -> None:
        """Match what has both in common, then what has one; up to what is matched already."""
        if not self.found.is_open:
            return
        pasts, futures = self._pasts(level), self._futures(level)
        both = [list(zip(*keys, strict=True)) for keys in zip(pasts, futures, strict=True)]
        self.found.join_equal((both[0], both[1]))
        self.found.join_equal(pasts)
        self.found.join_equal(futures)

    def _pasts(self, level: Level) -> Keys:
        fixed = self._fixed()
        a, b = (
            self.numbering.pasts(self.found.sides[s], self.at(level)[s], self.known[s], level, fixed[s]) for s in (0, 1)
        )
        return a, b

    def _futures(self, level: Level) -> Keys:
        fixed = self._fixed()
        a, b = (self.numbering.futures(self.found.sides[s], self.at(level)[s], self.asked[s], fixed[s]) for s in (0, 1))
        return a, b

    def _fixed(self) -> tuple[dict[int, int], dict[int, int]]:
        """A number for each pair, below zero, as no others are."""
        return {i: -1 - i for i, _ in self.found.pairs}, {j: -1 - i for i, j in self.found.pairs}


def _order(side: Side) -> tuple[int, bytes]:
    """Which of two graphs comes first, whatever is asked for."""
    digest = blake2b()
    for op in side.ops:
        digest.update(repr((op.type, op.name, [v.name for v in op.outputs])).encode("utf-8", "surrogateescape"))
        digest.update(op.rest or b"")
    return len(side), digest.digest()
