"""The search for pairs of ops in two graphs, whose edges agree or differ only by ops without a partner.

Ops are matched by their ancestors and descendants: first with attributes and constants, then with attributes, then by
type alone. Ops between two matched ones are aligned in order, like lines of text. Names only break ties. Every step is
linear in the graphs, but for the sorting of neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from hashlib import blake2b
from itertools import zip_longest

from ...core.ir.values import Value
from .constant_numbering import ConstantNumbering
from .indexed_graph import CAPTURED, IndexedGraph
from .interface_changes import InterfacePairing
from .matching import Keys, Matching, result_name
from .numbering import Granularity, Labels, Numbering, commutes

NEIGHBOURHOOD_RADIUS = 3  # of the neighbourhood of an op, in ops
OptionalValuePair = tuple[Value | None, Value | None]
"""Values at the same position in both graphs."""


class Correspondence(Enum):
    """The relation of two values at the same position of matched ops; unmatched ones have no partner."""

    MATCHED = auto()
    BOTH_UNMATCHED = auto()
    ONE_UNMATCHED = auto()
    DIFFERENT = auto()


class EdgeMatching:
    """Pairs of ops, and the pairs of values that follow from them."""

    def __init__(
        self,
        matching: Matching,
        constants: ConstantNumbering,
        labels: tuple[Labels, Labels],
        interface: InterfacePairing,
    ) -> None:
        self.matching, self.constants, self.labels, self.interface = matching, constants, labels, interface

    def swapped(self) -> EdgeMatching:
        """The same with the other graph first."""
        a, b = self.matching.sides
        found = Matching(b, a)
        for i, j in self.matching.pairs:
            found.match(j, i)
        return EdgeMatching(found, self.constants, (self.labels[1], self.labels[0]), self.interface.swapped())

    def partner(self, side: int, value: Value) -> Value | None:
        """The corresponding output of the partner of its producer, or the corresponding input of the other graph."""
        made = self.matching.sides[side].producers.get(value)
        if made is None:
            return self.interface.counterpart(side, value)
        other = self.matching.partners[side][made[0]]
        if other is None:
            return None
        outputs = self.matching.sides[1 - side].ops[other].outputs
        return outputs[made[1]] if made[1] < len(outputs) else None

    def correspondence(self, v: Value | None, w: Value | None) -> Correspondence | None:
        """The relation of `v` of the first graph to `w` of the second; None for constants and omitted inputs."""
        is_fixed = v is None or v in self.constants, w is None or w in self.constants
        partner = None if v is None or is_fixed[0] else self.partner(0, v)
        if partner is not None and partner is w:
            return Correspondence.MATCHED
        if all(is_fixed):
            return None
        unmatched = (
            not is_fixed[0] and partner is None,
            not is_fixed[1] and w is not None and self.partner(1, w) is None,
        )
        if all(unmatched):
            return Correspondence.BOTH_UNMATCHED
        return Correspondence.ONE_UNMATCHED if any(unmatched) else Correspondence.DIFFERENT

    def is_swapped(self, i: int, j: int) -> bool:
        """Whether two matched ops read the same values in the other order."""
        a, b = self.matching.sides
        if not (commutes(a.ops[i]) and commutes(b.ops[j]) and len(a.inputs[i]) == len(b.inputs[j]) == 2):
            return False
        straight = sum(map(self._is_matched, a.inputs[i], b.inputs[j]))
        return straight < 2 and sum(map(self._is_matched, a.inputs[i], b.inputs[j][::-1])) > straight

    def _is_matched(self, v: Value | None, w: Value | None) -> bool:
        if v in self.constants and w in self.constants:
            return self.is_equal_constant(v, w)
        return self.correspondence(v, w) is Correspondence.MATCHED

    def is_equal_constant(self, v: Value | None, w: Value | None) -> bool:
        """Whether two constants are equal, or both omitted."""
        if v is None or w is None:
            return v is w
        return self.constants[v] == self.constants[w]

    def operand_pairs(self, i: int, j: int) -> Iterator[OptionalValuePair]:
        """The inputs of two matched ops, by position."""
        a, b = self.matching.sides
        yield from zip_longest(a.inputs[i], b.inputs[j][::-1] if self.is_swapped(i, j) else b.inputs[j])

    def capture_pairs(self, i: int, j: int) -> Iterator[OptionalValuePair]:
        """The values that only one of two matched ops reads in its bodies, beside those of the other."""
        a, b = self.matching.sides
        ours, theirs = dict.fromkeys(a.captures[i]), dict.fromkeys(b.captures[j])
        left = [v for v in ours if self.partner(0, v) not in theirs]
        right = [w for w in theirs if self.partner(1, w) not in ours]
        yield from zip_longest(left, right)

    def use_pairs(self, i: int, j: int) -> Iterator[OptionalValuePair]:
        """The results of two matched ops and the values at the positions of their uses, in ops and graph outputs."""
        for side, op in enumerate((i, j)):
            here, there = self.matching.sides[side], self.matching.sides[1 - side]
            for v in here.ops[op].outputs:
                for user, index in here.uses.get(v, ()):
                    partner = self.matching.partners[side][user]
                    if partner is not None and index != CAPTURED:
                        swapped = self.is_swapped(*((user, partner) if side == 0 else (partner, user)))
                        inputs = there.inputs[partner][:: -1 if swapped else 1]
                        other = inputs[index] if index < len(inputs) else None
                        yield (v, other) if side == 0 else (other, v)
                for index in self.interface.output_indices[side].get(v, ()):
                    yield self.interface.outputs[index]

    def remove_inconsistent_pairs(self) -> None:
        """Separate the pairs whose edges disagree, and those that then disagree without them."""
        waiting = deque(self.matching.pairs)
        queued = set(waiting)
        while waiting:
            pair = waiting.popleft()
            queued.discard(pair)
            if self.matching.partners[0][pair[0]] != pair[1] or self._is_consistent(*pair):
                continue
            around = set(self._neighbouring_pairs(*pair))
            self.matching.unmatch(*pair)
            waiting.extend(sorted(around - queued))
            queued |= around

    def _is_consistent(self, i: int, j: int) -> bool:
        """Whether a pair may stay.

        Two of the same operation need one matched edge, or no edge that differs; others need all edges matched, but for
        those between ops without a partner in both graphs.
        """
        pairs = (*self.operand_pairs(i, j), *self.use_pairs(i, j))
        edges = {edge for v, w in pairs if (edge := self.correspondence(v, w)) is not None}
        if self.is_same_operation(i, j):
            return Correspondence.DIFFERENT not in edges or Correspondence.MATCHED in edges
        agreeing = {Correspondence.MATCHED, Correspondence.BOTH_UNMATCHED}
        return edges <= agreeing and (Correspondence.MATCHED in edges or not edges)

    def is_same_operation(self, i: int, j: int) -> bool:
        """Whether two ops compute the same from their inputs; a constant may replace a computed value.

        Bodies may differ: they are compared by themselves.
        """
        ours, theirs = self.labels
        if ours.by_granularity[Granularity.CONTENT][i] == theirs.by_granularity[Granularity.CONTENT][j]:
            return True
        if ours.attributes[i] != theirs.attributes[j]:
            return False
        return all(
            self.is_equal_constant(v, w) if self.correspondence(v, w) is None else v is not None and w is not None
            for v, w in self.operand_pairs(i, j)
        )

    def _neighbouring_pairs(self, i: int, j: int) -> Iterator[tuple[int, int]]:
        """The pairs of producers and consumers of a pair."""
        for side, op in enumerate((i, j)):
            here = self.matching.sides[side]
            for x in (*here.producer_ops(op), *here.consumer_ops(op)):
                y = self.matching.partners[side][x]
                if y is not None:
                    yield (x, y) if side == 0 else (y, x)


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
