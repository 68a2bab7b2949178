"""Queries on subgraphs: contained constants and names, captured values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .op import Op
from .traits import Trait, ops_with
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph

CAPTURING_OPS = ops_with(Trait.HAS_SUBGRAPHS) - {"SequenceMap"}  # defined by a function, and those capture nothing


def enclosing_op(graph: Graph, op: Op) -> Op | None:
    """The op of `graph` itself that is `op` or holds it in a subgraph."""
    while op.graph is not graph:
        if op.graph.owner is None:
            return None
        op = op.graph.owner
    return op


def captured_values(graph: Graph) -> Iterator[Value]:
    """Values that a graph or a graph inside it reads from an enclosing one; may repeat."""
    ops = list(graph.ops())
    own = {*graph.inputs, *graph.initializers, *graph.sparse_initializers}
    own.update(v for op in ops for v in op.outputs)
    for op in ops:
        yield from (v for v in op.inputs if v is not None and v not in own)
    for op in ops:
        for sub in op.subgraphs:
            yield from (v for v in sub.captured_values() if v not in own)
    yield from (v for v in graph.outputs if v not in own)


def add_captured_output_uses(op: Op) -> None:
    """Add `op` as consumer of the values of enclosing graphs that are outputs of its subgraphs."""
    for v in op.captures if op.subgraphs else ():
        if any(sub.is_output(v) for sub in op.subgraphs):
            v.add_consumer(op)


def all_value_names(graph: Graph) -> Iterator[str]:
    """Every value name in a graph and in those inside it."""
    for g in graph.with_subgraphs():
        yield from (v.name for v in (*g.inputs, *g.initializers, *g.sparse_initializers))
        yield from (v.name for v, _ in g.declared.inputs)
        for op in g.ops():
            yield from (v.name for v in op.outputs)


def total_op_count(graph: Graph) -> int:
    """Ops of a graph and of those inside it, Constant ops included."""
    return sum(map(len, graph.with_subgraphs()))


def all_constants(graph: Graph) -> Iterator[Value]:
    """The constants of a graph and of those inside it: initializers and outputs of Constant ops."""
    for g in graph.with_subgraphs():
        yield from g.initializers
        for op in g.ops("Constant"):
            yield from op.outputs


def constant_bytes(graph: Graph) -> int:
    """Bytes of the constants of a graph and of those inside it."""
    return sum(v.tensor.nbytes for v in all_constants(graph) if v.tensor is not None)
