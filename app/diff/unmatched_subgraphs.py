"""Connected subgraphs of unmatched ops, each with the values at its boundary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import networkx as nx
from networkx.utils import UnionFind

from ...core.ir.values import Value
from .matching import Correspondence, Matching, OptionalValuePair, in_order

OpRef = tuple[int, int]  # the number of a graph, and of an op in it
ValueRef = tuple[int, Value]  # the number of a graph, and a value in it
LARGE_SUBGRAPH = 32  # ops; larger subgraphs are split where several of their parts read one value


@dataclass(slots=True)
class UnmatchedSubgraph:
    """Unmatched ops of each graph, by number, and the values at the boundary in both graphs."""

    ops: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    inputs: dict[OptionalValuePair, None] = field(default_factory=dict[OptionalValuePair, None])
    outputs: dict[OptionalValuePair, None] = field(default_factory=dict[OptionalValuePair, None])


class UnmatchedSubgraphs:
    """The unmatched ops, grouped if they are connected or if their results in both graphs correspond."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self._nodes = [(side, i) for side in (0, 1) for i in matching.unmatched(side)]
        self._boundary_pairs = list(self._find_boundary_pairs())
        self._pairs_of_value: dict[ValueRef, dict[OptionalValuePair, None]] = {}
        for pair in self._boundary_pairs:
            for side, v in enumerate(pair):
                if v is not None:
                    self._pairs_of_value.setdefault((side, v), {})[pair] = None
        self._corresponding_pairs = dict(self._find_corresponding())
        self._output_pairs = (*self._boundary_pairs, *self._corresponding_pairs.values())
        self._sets = self._join_ops()

    def subgraphs(self) -> list[tuple[float, UnmatchedSubgraph]]:
        """The subgraphs in order, each with its position among the ops of the first graph."""
        found: dict[OpRef, UnmatchedSubgraph] = {}
        for side, i in self._nodes:
            subgraph = found.setdefault(self._sets[side, i], UnmatchedSubgraph())
            subgraph.ops[side].append(i)
            for pair in self._input_pairs(side, i):
                subgraph.inputs[pair] = None
                for producer in self._unmatched_producers(pair)[:1]:
                    found.setdefault(self._sets[producer], UnmatchedSubgraph()).outputs[pair] = None
        for pair in self._output_pairs:
            for producer in self._unmatched_producers(pair)[:1]:
                found[self._sets[producer]].outputs[pair] = None
        return [(self._position(piece)[0], piece) for piece in sorted(found.values(), key=self._position)]

    def _join_ops(self) -> UnionFind[OpRef]:
        """Group the unmatched ops that are connected, except in subgraphs that are too large to read."""
        pairs = map(self._unmatched_producers, self._output_pairs)
        corresponding = [(ops[0], ops[1]) for ops in pairs if len(ops) == 2]
        touching = [  # each op with the producers of its inputs, if these correspond to no value
            ((side, i), producer)
            for side, i in self._nodes
            for v, _ in self.matching.sides[side].operands(i)
            for producer in self._unmatched_producers(in_order(side, v, None))
            if (side, v) not in self._corresponding_pairs
        ]
        joined: nx.Graph[OpRef] = nx.Graph([*corresponding, *touching])
        components = nx.connected_components(joined)
        large = set(chain.from_iterable(c for c in components if len(c) >= LARGE_SUBGRAPH))
        parts = UnionFind(self._nodes)
        for a, b in (*corresponding, *(pair for pair in touching if pair[0] not in large)):
            parts.union(a, b)
        at_end = [node for node in reversed(self._nodes) if node in large]
        while sum(self._join_consumers(parts, node) for node in at_end):
            pass
        return parts

    def _join_consumers(self, parts: UnionFind[OpRef], node: OpRef) -> bool:
        """Join an op to its consumers if they are all in one other group; return whether it was joined."""
        side, here = node[0], self.matching.sides[node[0]]
        outputs = here.ops[node[1]].outputs
        if any((side, v) in self._pairs_of_value or (side, v) in self._corresponding_pairs for v in outputs):
            return False
        partners = self.matching.partners[side]
        consumers = {parts[side, u] for u in here.consumer_ops(node[1]) if partners[u] is None}
        if len(consumers) != 1 or parts[node] in consumers:
            return False
        parts.union(node, *consumers)
        return True

    def _find_corresponding(self) -> Iterator[tuple[ValueRef, OptionalValuePair]]:
        """Yield corresponding values of unmatched ops: those that matched ops read at one position, or of equal names.

        A name counts only if no matched op reads another value in its place.
        """
        made: tuple[dict[str, Value], dict[str, Value]] = ({}, {})
        for side, i in self._nodes:
            made[side].update((v.name, v) for v in self.matching.sides[side].ops[i].outputs if v.name)
        named = ((v, made[1][name]) for name, v in made[0].items() if name in made[1])
        both_open = (pair for pair in self._boundary_pairs if len(self._unmatched_producers(pair)) == 2)
        for v, w in (*both_open, *named):
            if v is not None and w is not None:
                ends: tuple[ValueRef, ValueRef] = ((0, v), (1, w))
                if all(self._pairs_of_value.get(end, {(v, w): None}).keys() == {(v, w)} for end in ends):
                    yield from ((end, (v, w)) for end in ends)

    def _find_boundary_pairs(self) -> Iterator[OptionalValuePair]:
        """Yield value pairs at one position of matched ops or outputs, at least one produced by an unmatched op."""
        matching = self.matching
        for i, j in matching.pairs:
            for pair in matching.operand_pairs(i, j):
                if self._unmatched_producers(pair) and matching.correspondence(*pair) is not Correspondence.MATCHED:
                    yield pair
            yield from filter(self._unmatched_producers, matching.capture_pairs(i, j))
        yield from filter(self._unmatched_producers, matching.interface.outputs)
        for side, paired in enumerate(matching.interface.output_indices):
            alone = (in_order(side, v, None) for v in matching.sides[side].graph.outputs if v not in paired)
            yield from filter(self._unmatched_producers, alone)

    def _unmatched_producers(self, pair: OptionalValuePair) -> list[OpRef]:
        """The unmatched ops that produce either of two values."""
        matching, found = self.matching, list[OpRef]()
        for side, v in enumerate(pair):
            i = matching.sides[side].producer(v)
            if i is not None and matching.partners[side][i] is None:
                found.append((side, i))
        return found

    def _input_pairs(self, side: int, i: int) -> Iterator[OptionalValuePair]:
        """Yield the inputs of an unmatched op from outside its subgraph, without constants, and their counterparts."""
        for v, _ in self.matching.sides[side].operands(i):
            alone = in_order(side, v, None)
            producers = self._unmatched_producers(alone)
            if (side, v) in self._corresponding_pairs:
                yield self._corresponding_pairs[side, v]
            elif not producers and v not in self.matching.constants:
                yield in_order(side, v, self.matching.partner(side, v))
            elif producers and self._sets[producers[0]] != self._sets[side, i]:
                pairs = [*self._pairs_of_value.get((side, v), ())]
                yield pairs[0] if len(pairs) == 1 else alone

    def _position(self, subgraph: UnmatchedSubgraph) -> tuple[float, int]:
        """The position in the first graph, or after the producers of its inputs; then the position in the second."""
        a, b = self.matching.sides
        producers = (p for v, _ in subgraph.inputs if (p := a.producer(v)) is not None)
        position = min(subgraph.ops[0]) if subgraph.ops[0] else max(producers, default=-1) + 0.5
        return position, min(subgraph.ops[1], default=len(b))
