"""One of the two graphs, laid out for comparison: its ops by number, in an order that its structure alone decides."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from ...core.ir.graph import Graph, depth_first_order
from ...core.ir.op import Op
from ...core.ir.values import Value

CAPTURED = -1  # the place of a value that a body of the op reads
IndexedUse = tuple[int, int]  # an op by number, and the place among its inputs


class IndexedGraph:
    """The ops of a graph, without those that only hold a constant; each stands after what it depends on.

    `producers` tells the op that makes a value and the place among its outputs, `uses` the places where it is read.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops = [op for op in ops_from_outputs(graph) if not is_constant_op(op)]
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
        """The values that an op reads, each with its place."""
        yield from ((v, j) for j, v in enumerate(self.inputs[i]) if v is not None)
        yield from ((v, CAPTURED) for v in self.captures[i])

    def producer_ops(self, i: int) -> Iterator[int]:
        """The ops that make what an op reads, each as often as it is read."""
        return (made[0] for v, _ in self.operands(i) if (made := self.producers.get(v)) is not None)

    def consumer_ops(self, i: int) -> Iterator[int]:
        """The ops that read what an op makes, each as often as it reads it."""
        return (u for v in self.ops[i].outputs for u, _ in self.uses.get(v, ()))

    def producer(self, value: Value | None) -> int | None:
        """The op that makes a value, by number; None of what is not computed here."""
        found = self.producers.get(value) if value is not None else None
        return None if found is None else found[0]


def is_constant_op(op: Op) -> bool:
    """Whether an op is nothing but the place of a constant."""
    return op.type == "Constant" and len(op.outputs) == 1 and op.outputs[0].tensor is not None


def op_count(op: Op) -> int:
    """An op and all that its bodies hold, in ops."""
    inner = (o for sub in op.subgraphs for g in sub.with_subgraphs() for o in g.ops())
    return 1 + sum(not is_constant_op(o) for o in inner)


def without_trailing_omitted(inputs: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """The inputs without those left out at the end."""
    end = len(inputs)
    while end and inputs[end - 1] is None:
        end -= 1
    return inputs[:end]


def output_mask(op: Op) -> tuple[bool, ...]:
    """Which outputs are asked for, up to the last one that is."""
    asked = [bool(v.name) for v in op.outputs]
    while asked and not asked[-1]:
        asked.pop()
    return tuple(asked)


def ops_from_outputs(graph: Graph) -> list[Op]:
    """All ops, depth first from the outputs, then those that no output depends on in the order of the file. O(V + E).

    So two files that list the same ops in other orders give the same one, and what belongs together stands together.
    """
    starts = [op for v in graph.outputs if (op := graph.producer(v)) is not None]
    return depth_first_order([*starts, *sorted(graph.ops(), key=attrgetter("order_key"))])
