"""The search for pairs of ops.

Ops are matched by what computes them and by what is done with their results: first with all they compute with, then
whatever the constants, then by type alone. What stands between two changes is aligned in order, as lines of text are.
Names only break ties. Every step is linear in the graphs, but for the sorting of neighbours.
"""

from __future__ import annotations

from hashlib import blake2b

from .edge_matching import EdgeMatching
from .indexed_graph import IndexedGraph
from .interface_changes import InterfacePairing
from .matching import Keys, Matching, result_name
from .numbering import Granularity, Labels, Numbering

NEIGHBOURHOOD_RADIUS = 3  # how many ops around one its surroundings take in


def match_ops(a: IndexedGraph, b: IndexedGraph, numbering: Numbering, ends: InterfacePairing) -> EdgeMatching:
    """Match the ops of two graphs. Which of them comes first makes no difference but for ties."""
    if _order_key(b) < _order_key(a):
        return _match_in_order(b, a, numbering, ends.swapped()).swapped()
    return _match_in_order(a, b, numbering, ends)


def _match_in_order(a: IndexedGraph, b: IndexedGraph, numbering: Numbering, ends: InterfacePairing) -> EdgeMatching:
    search = _OpMatcher(a, b, numbering, ends)
    search.propagate_matches()
    search.edges.remove_inconsistent_pairs()
    if search.matching.has_unmatched:
        search.align_unmatched()
        search.edges.remove_inconsistent_pairs()
    return search.edges


class _OpMatcher:
    def __init__(self, a: IndexedGraph, b: IndexedGraph, numbering: Numbering, ends: InterfacePairing) -> None:
        self.numbering = numbering
        self.input_numbers, self.output_numbers = (
            [{v: numbering.number((what, n)) for v, n in held.items()} for held in given]
            for what, given in (("input", ends.input_indices), ("output", ends.output_indices))
        )
        self.labels: tuple[Labels, Labels] = (numbering.labels(a), numbering.labels(b))
        self.matching = Matching(a, b)
        self.edges = EdgeMatching(self.matching, numbering.constants, self.labels, ends)

    def propagate_matches(self) -> None:
        """Match along edges, from the ends and from ops that are like no other."""
        self.match_by_context(Granularity.CONTENT)
        self.matching.align(self.labels_at(Granularity.CONTENT), only_unique=True)
        for level in Granularity:
            self.match_by_context(level)

    def align_unmatched(self) -> None:
        """Match what stands in the same order between what is matched, then along edges again."""
        self.matching.align(self.neighbourhood_labels(), only_unique=True)
        for level in Granularity:
            self.matching.align(self.named_labels_at(level), only_unique=True)
            self.matching.align(self.labels_at(level))
            self.match_by_context(level)

    def labels_at(self, level: Granularity) -> Keys:
        """What ops are at a level."""
        return self.labels[0].by_granularity[level], self.labels[1].by_granularity[level]

    def named_labels_at(self, level: Granularity) -> Keys:
        """What ops are at a level, and what they are called."""
        a, b = (
            [
                self.numbering.number((n, result_name(op)))
                for n, op in zip(labels.by_granularity[level], side.ops, strict=True)
            ]
            for labels, side in zip(self.labels, self.matching.sides, strict=True)
        )
        return a, b

    def neighbourhood_labels(self) -> Keys:
        """What open ops are, and what is around them."""
        a, b = (
            self.numbering.neighbourhood_numbers(
                self.matching.sides[s],
                self.labels_at(Granularity.CONTENT)[s],
                self.matching.unmatched(s),
                NEIGHBOURHOOD_RADIUS,
            )
            for s in (0, 1)
        )
        return a, b

    def match_by_context(self, level: Granularity) -> None:
        """Match what has both in common, then what has one; up to what is matched already."""
        if not self.matching.has_unmatched:
            return
        pasts, futures = self._upstream_numbers(level), self._downstream_numbers(level)
        both = [list(zip(*keys, strict=True)) for keys in zip(pasts, futures, strict=True)]
        self.matching.match_equal((both[0], both[1]))
        self.matching.match_equal(pasts)
        self.matching.match_equal(futures)

    def _upstream_numbers(self, level: Granularity) -> Keys:
        fixed = self._matched_numbers()
        a, b = (
            self.numbering.upstream_numbers(
                self.matching.sides[s], self.labels_at(level)[s], self.input_numbers[s], level, fixed[s]
            )
            for s in (0, 1)
        )
        return a, b

    def _downstream_numbers(self, level: Granularity) -> Keys:
        fixed = self._matched_numbers()
        a, b = (
            self.numbering.downstream_numbers(
                self.matching.sides[s], self.labels_at(level)[s], self.output_numbers[s], fixed[s]
            )
            for s in (0, 1)
        )
        return a, b

    def _matched_numbers(self) -> tuple[dict[int, int], dict[int, int]]:
        """A number for each pair, below zero, as no others are."""
        return {i: -1 - i for i, _ in self.matching.pairs}, {j: -1 - i for i, j in self.matching.pairs}


def _order_key(side: IndexedGraph) -> tuple[int, bytes]:
    """Which of two graphs comes first, whatever is asked for."""
    digest = blake2b()
    for op in side.ops:
        digest.update(repr((op.type, op.name, [v.name for v in op.outputs])).encode("utf-8", "surrogateescape"))
        digest.update(op.proto_bytes or b"")
    return len(side), digest.digest()
