"""The search for pairs of ops in two graphs.

Ops are matched by their ancestors and descendants: first with attributes and constants, then with attributes, then by
type alone. Ops between two matched ones are aligned in order, like lines of text. Names only break ties. Every step is
linear in the graphs, but for the sorting of neighbours.
"""

from __future__ import annotations

from hashlib import blake2b

from .edge_matching import EdgeMatching
from .indexed_graph import IndexedGraph
from .interface_changes import InterfacePairing
from .matching import Keys, Matching, result_name
from .numbering import Granularity, Numbering

NEIGHBOURHOOD_RADIUS = 3  # of the neighbourhood of an op, in ops


def match_ops(a: IndexedGraph, b: IndexedGraph, numbering: Numbering, ends: InterfacePairing) -> EdgeMatching:
    """Match the ops of two graphs. The order of the graphs makes no difference but for ties."""
    if _order_key(b) < _order_key(a):
        return _match_in_order(b, a, numbering, ends.swapped()).swapped()
    return _match_in_order(a, b, numbering, ends)


def _match_in_order(a: IndexedGraph, b: IndexedGraph, numbering: Numbering, ends: InterfacePairing) -> EdgeMatching:
    search = _OpMatcher(a, b, numbering, ends)
    search.match_along_edges()
    search.edges.remove_inconsistent_pairs()
    if search.matching.has_unmatched:
        search.match_in_order()
        search.edges.remove_inconsistent_pairs()
    return search.edges


class _OpMatcher:
    def __init__(self, a: IndexedGraph, b: IndexedGraph, numbering: Numbering, ends: InterfacePairing) -> None:
        self.sides = a, b
        self.numbering = numbering
        self.input_numbers, self.output_numbers = (
            [{v: numbering.number((what, n)) for v, n in held.items()} for held in given]
            for what, given in (("input", ends.input_indices), ("output", ends.output_indices))
        )
        labels = numbering.labels(a), numbering.labels(b)
        self.labels: dict[Granularity, Keys] = {g: [side.by_granularity[g] for side in labels] for g in Granularity}
        self.matching = Matching(a, b)
        self.edges = EdgeMatching(self.matching, numbering.constants, labels, ends)

    def match_along_edges(self) -> None:
        """Match along edges, from the inputs and outputs and from ops that are unique."""
        self._match_by_context(Granularity.CONTENT)
        self.matching.align(self.labels[Granularity.CONTENT], only_unique=True)
        for granularity in Granularity:
            self._match_by_context(granularity)

    def match_in_order(self) -> None:
        """Match ops in the same order between matched ones, then along edges again."""
        around = [
            self.numbering.neighbourhood_numbers(side, labels, self.matching.unmatched(s), NEIGHBOURHOOD_RADIUS)
            for s, (side, labels) in enumerate(zip(self.sides, self.labels[Granularity.CONTENT], strict=True))
        ]
        self.matching.align(around, only_unique=True)
        for granularity in Granularity:
            named = [
                [self.numbering.number((n, result_name(op))) for n, op in zip(labels, side.ops, strict=True)]
                for labels, side in zip(self.labels[granularity], self.sides, strict=True)
            ]
            self.matching.align(named, only_unique=True)
            self.matching.align(self.labels[granularity])
            self._match_by_context(granularity)

    def _match_by_context(self, granularity: Granularity) -> None:
        """Match ops with the same ancestors and descendants, then with either, up to matched ops."""
        if not self.matching.has_unmatched:
            return
        pairs = list(self.matching.pairs)  # numbered below zero, as no others are
        fixed = {i: -1 - i for i, _ in pairs}, {j: -1 - i for i, j in pairs}
        labelled = list(zip(self.sides, self.labels[granularity], strict=True))
        ancestors = [
            self.numbering.upstream_numbers(*labelled[s], self.input_numbers[s], granularity, fixed[s]) for s in (0, 1)
        ]
        descendants = [
            self.numbering.downstream_numbers(*labelled[s], self.output_numbers[s], fixed[s]) for s in (0, 1)
        ]
        self.matching.match_equal([list(zip(ancestors[s], descendants[s], strict=True)) for s in (0, 1)])
        self.matching.match_equal(ancestors)
        self.matching.match_equal(descendants)


def _order_key(side: IndexedGraph) -> tuple[int, bytes]:
    """A key that orders two graphs."""
    digest = blake2b()
    for op in side.ops:
        digest.update(repr((op.type, op.name, [v.name for v in op.outputs])).encode("utf-8", "surrogateescape"))
        digest.update(op.proto_bytes or b"")
    return len(side), digest.digest()
