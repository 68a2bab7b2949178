"""The ops, producers and uses of a graph by number, in an order that depends on its structure alone."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from ...core.ir.graph import Graph, depth_first_order
from ...core.ir.op import Op
from ...core.ir.values import Value

CAPTURED = -1  # the input index of a value that a body of the op reads
IndexedUse = tuple[int, int]  # an op by number, and an index of its inputs or outputs


class IndexedGraph:
    """The ops of a graph, without those that only hold a constant, in topological order.

    `producers` has the op and output index that make a value, `uses` the ops and input indices that read it.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # Depth first from the outputs, then the ops that no output depends on in the order of the file: two files that
        # list the same ops differently have the same order, and ops that belong together are next to each other.
        starts = [op for v in graph.outputs if (op := graph.producer(v)) is not None]
        ordered = depth_first_order([*starts, *sorted(graph.ops(), key=attrgetter("order_key"))])
        self.ops = [op for op in ordered if not is_constant_op(op)]
        self.inputs = [without_trailing_omitted(op.inputs) for op in self.ops]
        self.captures = [op.captures if op.subgraphs else () for op in self.ops]
        self.producers: dict[Value, IndexedUse] = {}
        self.uses: dict[Value, list[IndexedUse]] = {}
        self.output_indices: dict[Value, list[int]] = {}  # among the outputs of the graph
        for i, op in enumerate(self.ops):
            self.producers.update((v, (i, j)) for j, v in enumerate(op.outputs))
            for v, j in self.operands(i):
                self.uses.setdefault(v, []).append((i, j))
        for place, v in enumerate(graph.outputs):
            self.output_indices.setdefault(v, []).append(place)

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


def is_constant_op(op: Op) -> bool:
    """Whether an op only holds a constant."""
    return op.type == "Constant" and len(op.outputs) == 1 and op.outputs[0].tensor is not None


def op_count(op: Op) -> int:
    """The number of ops in an op and its bodies."""
    inner = (o for sub in op.subgraphs for g in sub.with_subgraphs() for o in g.ops())
    return 1 + sum(not is_constant_op(o) for o in inner)


def without_trailing_omitted(inputs: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """The inputs without the omitted ones at the end."""
    return inputs[: max((i for i, v in enumerate(inputs, 1) if v is not None), default=0)]


def output_mask(op: Op) -> tuple[bool, ...]:
    """Whether each output is present, up to the last one that is."""
    present = tuple(bool(v.name) for v in op.outputs)
    return present[: max((i for i, is_present in enumerate(present, 1) if is_present), default=0)]
