"""Connected subgraphs of the ops without a partner, each with the values at its boundary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import networkx as nx
from networkx.utils import UnionFind

from ...core.ir.values import Value
from .edge_matching import Correspondence, EdgeMatching, OptionalValuePair

OpRef = tuple[int, int]  # a side, and the number of an op of it
ValueRef = tuple[int, Value]  # a side, and a value of it
LARGE_SUBGRAPH = 32  # ops, from which on a piece is cut where several parts of it read one value


@dataclass(slots=True)
class UnmatchedSubgraph:
    """Ops without a partner, by number, of each graph; `inputs` and `outputs` are values at the rim in both graphs."""

    ops: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    inputs: dict[OptionalValuePair, None] = field(default_factory=dict[OptionalValuePair, None])
    outputs: dict[OptionalValuePair, None] = field(default_factory=dict[OptionalValuePair, None])


class UnmatchedSubgraphs:
    """Joins open ops that touch each other, and those of the two graphs whose results stand in the same places."""

    def __init__(self, agreement: EdgeMatching) -> None:
        self.agreement = agreement
        self._nodes = [(side, i) for side in (0, 1) for i in agreement.matching.unmatched(side)]
        self._boundary_pairs = list(self._find_boundary_pairs())
        self._pairs_of_value: dict[ValueRef, dict[OptionalValuePair, None]] = {}
        for rim in self._boundary_pairs:
            for side, v in enumerate(rim):
                if v is not None:
                    self._pairs_of_value.setdefault((side, v), {})[rim] = None
        self._corresponding_pairs = dict(self._find_corresponding())
        self._sets = self._join_ops()

    def subgraphs(self) -> list[tuple[float, UnmatchedSubgraph]]:
        """The pieces in order, each with its place among the ops of the first graph."""
        pieces: dict[OpRef, UnmatchedSubgraph] = {}
        for node in self._nodes:
            piece = pieces.setdefault(self._sets[node], UnmatchedSubgraph())
            piece.ops[node[0]].append(node[1])
            for rim in self._input_pairs(*node):
                piece.inputs[rim] = None
                for maker in self._unmatched_producers(rim)[:1]:
                    pieces.setdefault(self._sets[maker], UnmatchedSubgraph()).outputs[rim] = None
        for rim in self._output_pairs():
            for maker in self._unmatched_producers(rim)[:1]:
                pieces[self._sets[maker]].outputs[rim] = None
        return [(self._position(piece)[0], piece) for piece in sorted(pieces.values(), key=self._position)]

    # -- what belongs together ---------------------------------------------------------

    def _join_ops(self) -> UnionFind[OpRef]:
        """The open ops, joined: all that touch, but for what makes a piece too large to be read as one."""
        touching = list(self._touching_ops())
        joined: nx.Graph[OpRef] = nx.Graph([*self._corresponding_producers(), *touching])
        components = nx.connected_components(joined)
        large = set(chain.from_iterable(c for c in components if len(c) >= LARGE_SUBGRAPH))
        parts = UnionFind(self._nodes)
        for a, b in (*self._corresponding_producers(), *(pair for pair in touching if pair[0] not in large)):
            parts.union(a, b)
        at_end = [node for node in reversed(self._nodes) if node in large]
        while sum(self._join_consumers(parts, node) for node in at_end):
            pass
        return parts

    def _corresponding_producers(self) -> Iterator[tuple[OpRef, OpRef]]:
        """Ops of the two graphs whose results are in the same place."""
        for pair in self._output_pairs():
            producers = self._unmatched_producers(pair)
            if len(producers) == 2:
                yield producers[0], producers[1]

    def _touching_ops(self) -> Iterator[tuple[OpRef, OpRef]]:
        """Each open op with those of which it reads a value that corresponds to none."""
        for side, i in self._nodes:
            for v, _ in self.agreement.matching.sides[side].operands(i):
                producer = self._unmatched_producer(side, v)
                if producer is not None and (side, v) not in self._corresponding_pairs:
                    yield (side, i), producer

    def _join_consumers(self, parts: UnionFind[OpRef], node: OpRef) -> bool:
        """Join an op to its consumers if they are of one other part and nothing else reads it; False if not."""
        side, here = node[0], self.agreement.matching.sides[node[0]]
        outputs = here.ops[node[1]].outputs
        if any((side, v) in self._pairs_of_value or (side, v) in self._corresponding_pairs for v in outputs):
            return False
        partners = self.agreement.matching.partners[side]
        consumers = {parts[side, u] for v in outputs for u, _ in here.uses.get(v, ()) if partners[u] is None}
        if len(consumers) != 1 or parts[node] in consumers:
            return False
        parts.union(node, *consumers)
        return True

    # -- values at the rims ------------------------------------------------------------

    def _output_pairs(self) -> Iterable[OptionalValuePair]:
        """What pieces show to others in both graphs."""
        return (*self._boundary_pairs, *self._corresponding_pairs.values())

    def _find_corresponding(self) -> Iterator[tuple[ValueRef, OptionalValuePair]]:
        """Values among open ops that correspond: read by matched ops in one place, or of one name.

        A name counts only where nothing that is matched says otherwise.
        """
        made: tuple[dict[str, Value], dict[str, Value]] = ({}, {})
        for side, i in self._nodes:
            made[side].update((v.name, v) for v in self.agreement.matching.sides[side].ops[i].outputs if v.name)
        named = ((v, made[1][name]) for name, v in made[0].items() if name in made[1])
        both_open = (rim for rim in self._boundary_pairs if len(self._unmatched_producers(rim)) == 2)
        for v, w in (*both_open, *named):
            if (
                v is not None
                and w is not None
                and self._is_only_pair(0, v, (v, w))
                and self._is_only_pair(1, w, (v, w))
            ):
                yield (0, v), (v, w)
                yield (1, w), (v, w)

    def _is_only_pair(self, side: int, v: Value, rim: OptionalValuePair) -> bool:
        """Whether a value is seen as nothing else, if at all."""
        return self._pairs_of_value.get((side, v), {rim: None}).keys() == {rim}

    def _find_boundary_pairs(self) -> Iterator[OptionalValuePair]:
        """Values in the same place of matched ops, or among the outputs, of which one is made by an open op."""
        agreement = self.agreement
        for i, j in agreement.matching.pairs:
            for rim in agreement.operand_pairs(i, j):
                if self._unmatched_producers(rim) and agreement.correspondence(*rim) is not Correspondence.MATCHED:
                    yield rim
            yield from (rim for rim in agreement.capture_pairs(i, j) if self._unmatched_producers(rim))
        yield from (rim for rim in agreement.interface.outputs if self._unmatched_producers(rim))
        for side in (0, 1):
            here = agreement.matching.sides[side]
            paired = agreement.interface.output_indices[side]
            for v in here.graph.outputs:
                if v not in paired and self._unmatched_producer(side, v) is not None:
                    yield (v, None) if side == 0 else (None, v)

    def _unmatched_producers(self, pair: OptionalValuePair) -> list[OpRef]:
        makers = (self._unmatched_producer(side, v) for side, v in enumerate(pair))
        return [m for m in makers if m is not None]

    def _unmatched_producer(self, side: int, v: Value | None) -> OpRef | None:
        i = self.agreement.matching.sides[side].producer(v)
        return (side, i) if i is not None and self.agreement.matching.partners[side][i] is None else None

    def _input_pairs(self, side: int, i: int) -> Iterator[OptionalValuePair]:
        """What an open op reads that is no constant and not made in its own piece."""
        for v, _ in self.agreement.matching.sides[side].operands(i):
            maker = self._unmatched_producer(side, v)
            if (side, v) in self._corresponding_pairs:
                yield self._corresponding_pairs[side, v]
            elif maker is None and v not in self.agreement.constants:
                other = self.agreement.partner(side, v)
                yield (v, other) if side == 0 else (other, v)
            elif maker is not None and self._sets[maker] != self._sets[side, i]:
                yield self._boundary_pair(side, v)

    def _boundary_pair(self, side: int, v: Value) -> OptionalValuePair:
        """What stands for a value in the other graph, if that is one thing."""
        rims = [*self._pairs_of_value.get((side, v), ())]
        if len(rims) == 1:
            return rims[0]
        return (v, None) if side == 0 else (None, v)

    def _position(self, piece: UnmatchedSubgraph) -> tuple[float, int]:
        """Where the first graph has the piece, or what it hangs on; then where the second has it."""
        a, b = self.agreement.matching.sides
        first = min(piece.ops[0], default=None)
        behind = [m for v, _ in piece.inputs if (m := a.producer(v)) is not None]
        at = first if first is not None else max(behind, default=-1) + 0.5
        return at, min(piece.ops[1], default=len(b))
