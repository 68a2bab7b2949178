"""Numbers of ops in two models: equal numbers mean equal operators, ancestors or descendants.

Source: R. Merkle, "A Digital Signature Based on a Conventional Encryption Function", 1987, for hashes of hashes; with
numbers in their place, which cannot collide.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.values import Value
from ...core.rewriting.pattern import COMMUTATIVE
from .constant_numbering import ConstantNumbering
from .indexed_graph import CAPTURED, IndexedGraph, output_mask
from .node_data import significant_attributes

ExternalNumbers = Mapping[Value, int]
"""Numbers of inputs or outputs of a graph: equal ones correspond."""
FixedNumbers = Mapping[int, int]
"""Numbers of ops that are known already."""
NO_FIXED_NUMBERS: FixedNumbers = MappingProxyType({})


class Granularity(Enum):
    """The parts of an op that are compared: attributes and constants, attributes alone, or its type alone."""

    CONTENT = 0
    ATTRIBUTES = 1
    TYPE = 2


@dataclass(slots=True)
class Numbering:
    """The numbers of ops in two models, and of their `constants`; `versions` are their opsets."""

    constants: ConstantNumbering
    versions: tuple[Mapping[str, int], Mapping[str, int]]
    _numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _indexed_graphs: dict[Graph, IndexedGraph] = field(default_factory=dict[Graph, IndexedGraph])

    def number(self, key: Hashable) -> int:
        """The number of a key, the same each time."""
        return self._numbers.setdefault(key, len(self._numbers))

    def indexed(self, graph: Graph) -> IndexedGraph:
        """The graph indexed for comparison."""
        if graph not in self._indexed_graphs:
            self._indexed_graphs[graph] = IndexedGraph(graph)
        return self._indexed_graphs[graph]

    def labels(self, side: IndexedGraph) -> Labels:
        """A number of each granularity for each op of a graph."""
        kinds, attributes, shapes, contents = list[int](), list[int](), list[int](), list[int]()
        for i, op in enumerate(side.ops):
            versions = [v.get(op.domain, 0) for v in self.versions]
            other_version = versions[1] if op.version == versions[0] else versions[0]
            kind = self.number((op.type, op.domain))
            significant = frozenset(significant_attributes(op, other_version).items())
            written = self.number((kind, significant, output_mask(op)))
            held = tuple(  # positive for a constant, 0 for a computed value, None for an omitted input
                None if v is None else 1 + self.constants[v] if v in self.constants else 0 for v in side.inputs[i]
            )
            bodies = tuple(self._body_number(sub) for sub in op.subgraphs)
            kinds.append(kind)
            attributes.append(written)
            shapes.append(self.number((written, tuple(-1 if h is None else min(h, 1) for h in held))))
            contents.append(self.number((written, held, bodies)))
        return Labels(
            attributes, {Granularity.TYPE: kinds, Granularity.ATTRIBUTES: shapes, Granularity.CONTENT: contents}
        )

    def _body_number(self, graph: Graph) -> int:
        """A number for the computation of a body; values from outside are assumed to be the same."""
        side = self.indexed(graph)
        inputs = {v: self.number(("input", i)) for i, v in enumerate(graph.inputs)}
        labels = self.labels(side).by_granularity[Granularity.CONTENT]
        ops = self.upstream_numbers(side, labels, inputs, Granularity.CONTENT)
        outputs = tuple(self._upstream_number(side, ops, inputs, v, Granularity.CONTENT) for v in graph.outputs)
        return self.number(("body", len(graph.inputs), tuple(sorted(ops)), outputs))

    def upstream_numbers(
        self,
        side: IndexedGraph,
        labels: Sequence[int],
        known: ExternalNumbers,
        level: Granularity,
        fixed: FixedNumbers = NO_FIXED_NUMBERS,
    ) -> list[int]:
        """A number for each op by its ancestors. `known` values and `fixed` ops have given numbers."""
        found: list[int] = []
        for i, op in enumerate(side.ops):
            if i in fixed:
                found.append(fixed[i])
                continue
            reads = [0 if v is None else self._upstream_number(side, found, known, v, level) for v in side.inputs[i]]
            if commutes(op):
                reads.sort()
            reads += (self._upstream_number(side, found, known, v, level) for v in side.captures[i])
            found.append(self.number(("past", labels[i], *reads)))
        return found

    def _upstream_number(
        self, side: IndexedGraph, upstream: list[int], known: ExternalNumbers, v: Value, level: Granularity
    ) -> int:
        if v in known:
            return known[v]
        if v in self.constants:
            return self.number(("constant", self.constants[v] if level is Granularity.CONTENT else 0))
        made = side.producers.get(v)
        return self.number("outside") if made is None else self.number(("output", upstream[made[0]], made[1]))

    def downstream_numbers(
        self,
        side: IndexedGraph,
        labels: Sequence[int],
        outputs: ExternalNumbers,
        fixed: FixedNumbers = NO_FIXED_NUMBERS,
    ) -> list[int]:
        """A number for each op by its descendants. `outputs` of the graph and `fixed` ops have given numbers."""
        found = [0] * len(side)
        for i in reversed(range(len(side))):
            if i in fixed:
                found[i] = fixed[i]
                continue
            ends: list[object] = []
            for v in side.ops[i].outputs:
                after = ((found[u], CAPTURED - 1 if commutes(side.ops[u]) else j) for u, j in side.uses.get(v, ()))
                ends += (outputs.get(v, 0), *sorted(after), None)
            found[i] = self.number(("future", labels[i], *ends))
        return found

    def neighbourhood_numbers(
        self, side: IndexedGraph, labels: Sequence[int], ops: Iterable[int], radius: int
    ) -> list[int]:
        """A number for each of some ops by the labels of the ops at most `radius` away; for others, any."""
        rings = [set(ops)]
        for _ in range(radius - 1):
            rings.append({n for i in rings[-1] for n in (i, *side.producer_ops(i), *side.consumer_ops(i))})
        found = list(labels)
        for ring in reversed(rings):
            wider = {
                i: self.number(("around", found[i], *sorted(found[m] for m in side.producer_ops(i)), None,
                                *sorted(found[u] for u in side.consumer_ops(i))))
                for i in ring
            }  # fmt: skip
            for i, n in wider.items():
                found[i] = n
        return found


class Labels(NamedTuple):
    """Numbers of ops: by type and attributes without inputs, and for each granularity."""

    attributes: list[int]
    by_granularity: dict[Granularity, list[int]]


def commutes(op: Op) -> bool:
    """Whether the order of the two inputs of an op does not matter."""
    return len(op.inputs) == 2 and op.type in COMMUTATIVE and not op.domain
