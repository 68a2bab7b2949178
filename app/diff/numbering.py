"""Numbers of ops in two models: equal numbers mean equal operators, ancestors or descendants.

Source: R. Merkle, "A Digital Signature Based on a Conventional Encryption Function", 1987, for hashes of hashes; with
numbers in their place, which cannot collide.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter

from ...core.ir import op_schemas
from ...core.ir.graph import Graph, depth_first_order
from ...core.ir.op import Op, without_trailing_omitted
from ...core.ir.values import Value
from ...core.rewriting.pattern import COMMUTATIVE
from ...core.serialization.node_attributes import non_default_attributes
from .constants import Constants, held_constant

CAPTURED = -1  # the input index of a value that a body of the op reads
IndexedUse = tuple[int, int]  # an op by number, and an index of its inputs or outputs
ExternalNumbers = Mapping[Value, int]
"""Numbers of inputs or outputs of a graph: equal ones correspond."""
FixedNumbers = Mapping[int, int]
"""Numbers of ops that are known already."""


class Granularity(Enum):
    """The parts of an op that are compared: attributes and constants, attributes alone, or its type alone."""

    CONTENT = 0
    ATTRIBUTES = 1
    TYPE = 2


class IndexedGraph:
    """The ops of a graph, without those that only hold a constant, in topological order.

    `producers` has the op and output index that make a value, `uses` the ops and input indices that read it. `labels`
    has a number of each granularity for each op, `attributes` one for its type and attributes without its inputs.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # Depth first from the outputs, then the ops that no output depends on in the order of the file: two files that
        # list the same ops differently have the same order, and ops that belong together are next to each other.
        starts = [op for v in graph.outputs if (op := graph.producer(v)) is not None]
        ordered = depth_first_order([*starts, *sorted(graph.ops(), key=attrgetter("order_key"))])
        self.ops = [op for op in ordered if held_constant(op) is None]
        self.inputs = [tuple(without_trailing_omitted(op.inputs)) for op in self.ops]
        self.captures = [op.captures if op.subgraphs else () for op in self.ops]
        self.labels: dict[Granularity, list[int]] = {}
        self.attributes: list[int] = []
        self.producers: dict[Value, IndexedUse] = {}
        self.uses: dict[Value, list[IndexedUse]] = {}
        for i, op in enumerate(self.ops):
            self.producers.update((v, (i, j)) for j, v in enumerate(op.outputs))
            for v, j in self.operands(i):
                self.uses.setdefault(v, []).append((i, j))

    def __len__(self) -> int:
        return len(self.ops)

    def operands(self, i: int) -> Iterator[tuple[Value, int]]:
        """The values that an op reads, each with its input index."""
        yield from ((v, j) for j, v in enumerate(self.inputs[i]) if v is not None)
        yield from ((v, CAPTURED) for v in self.captures[i])

    def producer_ops(self, i: int) -> Iterator[int]:
        """The producers of the inputs of an op, each once for every input."""
        return (m for v, _ in self.operands(i) if (m := self.producer(v)) is not None)

    def consumer_ops(self, i: int) -> Iterator[int]:
        """The consumers of the outputs of an op, each once for every use."""
        return (u for v in self.ops[i].outputs for u, _ in self.uses.get(v, ()))

    def producer(self, value: Value | None) -> int | None:
        """The op that makes a value, by number; None for a value that is not computed here."""
        found = self.producers.get(value) if value is not None else None
        return None if found is None else found[0]


@dataclass(slots=True)
class Numbering:
    """The numbers of ops in two models, and of their `constants`; `versions` are their opsets."""

    constants: Constants
    versions: tuple[Mapping[str, int], Mapping[str, int]]
    _numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _indexed_graphs: dict[Graph, IndexedGraph] = field(default_factory=dict[Graph, IndexedGraph])

    def number(self, key: Hashable) -> int:
        """The number of a key, the same each time."""
        return self._numbers.setdefault(key, len(self._numbers))

    def indexed(self, graph: Graph) -> IndexedGraph:
        """The graph indexed and labelled for comparison."""
        if (found := self._indexed_graphs.get(graph)) is None:
            found = self._indexed_graphs[graph] = IndexedGraph(graph)
            rows = [self._op_labels(op, inputs) for op, inputs in zip(found.ops, found.inputs, strict=True)]
            found.attributes = [row[0] for row in rows]
            found.labels = {g: [row[i] for row in rows] for i, g in enumerate(Granularity, 1)}
        return found

    def _op_labels(self, op: Op, inputs: tuple[Value | None, ...]) -> tuple[int, int, int, int]:
        """The number of an op by type and attributes without its inputs, then one of each granularity."""
        versions = [v.get(op.domain, 0) for v in self.versions]
        other_version = versions[1] if op.version == versions[0] else versions[0]
        kind = self.number((op.type, op.domain))
        significant = frozenset(significant_attributes(op, other_version).items())
        written = self.number((kind, significant, output_mask(op)))
        held = tuple(  # positive for a constant, 0 for a computed value, None for an omitted input
            None if v is None else 1 + self.constants[v] if v in self.constants else 0 for v in inputs
        )
        content = self.number((written, held, tuple(map(self._body_number, op.subgraphs))))
        return written, content, self.number((written, tuple(-1 if h is None else min(h, 1) for h in held))), kind

    def _body_number(self, graph: Graph) -> int:
        """A number for the computation of a body; values from outside are assumed to be the same."""
        side = self.indexed(graph)
        inputs = {v: self.number(("input", i)) for i, v in enumerate(graph.inputs)}
        ops = self.upstream_numbers(side, Granularity.CONTENT, inputs, {})
        outputs = tuple(self._upstream_number(side, Granularity.CONTENT, inputs, ops, v) for v in graph.outputs)
        return self.number(("body", len(graph.inputs), tuple(sorted(ops)), outputs))

    def upstream_numbers(
        self, side: IndexedGraph, level: Granularity, inputs: ExternalNumbers, fixed: FixedNumbers
    ) -> list[int]:
        """A number for each op by its ancestors. `inputs` of the graph and `fixed` ops have given numbers."""
        found: list[int] = []
        labels = side.labels[level]
        for i, op in enumerate(side.ops):
            if i in fixed:
                found.append(fixed[i])
                continue
            reads = [0 if v is None else self._upstream_number(side, level, inputs, found, v) for v in side.inputs[i]]
            if commutes(op):
                reads.sort()
            reads += (self._upstream_number(side, level, inputs, found, v) for v in side.captures[i])
            found.append(self.number(("past", labels[i], *reads)))
        return found

    def _upstream_number(
        self, side: IndexedGraph, level: Granularity, inputs: ExternalNumbers, upstream: list[int], v: Value
    ) -> int:
        if v in inputs:
            return inputs[v]
        if v in self.constants:
            return self.number(("constant", self.constants[v] if level is Granularity.CONTENT else 0))
        made = side.producers.get(v)
        return self.number("outside") if made is None else self.number(("output", upstream[made[0]], made[1]))

    def downstream_numbers(
        self, side: IndexedGraph, level: Granularity, outputs: ExternalNumbers, fixed: FixedNumbers
    ) -> list[int]:
        """A number for each op by its descendants. `outputs` of the graph and `fixed` ops have given numbers."""
        found, labels = [0] * len(side), side.labels[level]
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


def commutes(op: Op) -> bool:
    """Whether the order of the two inputs of an op does not matter."""
    return len(op.inputs) == 2 and op.type in COMMUTATIVE and not op.domain


def output_mask(op: Op) -> tuple[bool, ...]:
    """Whether each output is present, up to the last one that is."""
    return tuple(map(bool, without_trailing_omitted(v.name for v in op.outputs)))


def significant_attributes(op: Op, other_version: int) -> dict[str, bytes]:
    """The attributes that are not at their default, serialized, without bodies.

    Those at a default that `other_version` of the opset does not share are included, such as `axis` of Softmax at 13.
    """
    ours, theirs = (op_schemas.encoded_defaults(op.type, op.domain, v) for v in (op.version, other_version))
    shifted = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    return {**{name: ours[name] for name in shifted}, **non_default_attributes(op, shifted)}
