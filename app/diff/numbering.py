"""Numbers of ops in two models: equal numbers mean equal operators, ancestors or descendants.

Source: R. Merkle, "A Digital Signature Based on a Conventional Encryption Function", 1987, for hashes of hashes;
numbers replace the hashes here, because they cannot collide.
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

CAPTURED = -1  # the input index of a value that a body of the op captures
IndexedUse = tuple[int, int]  # the number of an op, and an index of its inputs or outputs
ExternalNumbers = Mapping[Value, int]
"""Numbers of inputs or outputs of a graph; equal numbers correspond."""
FixedNumbers = Mapping[int, int]
"""Numbers of ops that are already known."""


class Granularity(Enum):
    """The compared part of an op: its attributes and constants, only its attributes, or only its type."""

    CONTENT = 0
    ATTRIBUTES = 1
    TYPE = 2


class IndexedGraph:
    """The ops of a graph without Constant ops, in topological order.

    `producers` maps a value to the op and output index that produce it, `uses` to the ops and input indices that read
    it. `labels` has a number of each granularity for each op; `attributes` a number for its type and attributes only.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # Depth first from the outputs, followed by dead ops in file order: files that list the same ops differently
        # have the same order, and related ops are adjacent.
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
        """Yield the producers of an op's inputs, once for each input."""
        return (m for v, _ in self.operands(i) if (m := self.producer(v)) is not None)

    def consumer_ops(self, i: int) -> Iterator[int]:
        """Yield the consumers of an op's outputs, once for each use."""
        return (u for v in self.ops[i].outputs for u, _ in self.uses.get(v, ()))

    def producer(self, value: Value | None) -> int | None:
        """The number of the op that produces a value; None for a value that is not computed in this graph."""
        found = self.producers.get(value) if value is not None else None
        return None if found is None else found[0]


@dataclass(slots=True)
class Numbering:
    """Numbers of ops in two models and of their `constants`; `versions` are their opsets."""

    constants: Constants
    versions: tuple[Mapping[str, int], Mapping[str, int]]
    _numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _indexed_graphs: dict[Graph, IndexedGraph] = field(default_factory=dict[Graph, IndexedGraph])

    def number(self, key: Hashable) -> int:
        """The number of a key, always the same for equal keys."""
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
        """A number for the type and attributes of an op, then one for each granularity."""
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
        """A number for the computation of a body; captured values are assumed to be equal."""
        side = self.indexed(graph)
        inputs = {v: self.number(("input", i)) for i, v in enumerate(graph.inputs)}
        ops = self.upstream_numbers(side, Granularity.CONTENT, inputs, {})
        outputs = tuple(self._upstream_number(side, Granularity.CONTENT, inputs, ops, v) for v in graph.outputs)
        return self.number(("body", len(graph.inputs), tuple(sorted(ops)), outputs))

    def upstream_numbers(
        self, side: IndexedGraph, level: Granularity, inputs: ExternalNumbers, fixed: FixedNumbers
    ) -> list[int]:
        """Number each op by its ancestors; the numbers of graph `inputs` and `fixed` ops are given."""
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
        """Number each op by its descendants; the numbers of graph `outputs` and `fixed` ops are given."""
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
    """Whether each output is present, up to the last present one."""
    return tuple(map(bool, without_trailing_omitted(v.name for v in op.outputs)))


def significant_attributes(op: Op, other_version: int) -> dict[str, bytes]:
    """The attributes that differ from their defaults, serialized, without bodies.

    Attributes at a default that differs in `other_version` of the opset are included, such as `axis` of Softmax at 13.
    """
    ours, theirs = (op_schemas.encoded_defaults(op.type, op.domain, v) for v in (op.version, other_version))
    shifted = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    return {**{name: ours[name] for name in shifted}, **non_default_attributes(op, shifted)}
