"""Graphs inside graphs: what they hold, and what they read from outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .values import Op, Value

if TYPE_CHECKING:
    from .graph import Graph


def holder(graph: Graph, op: Op) -> Op | None:
    """The op of `graph` itself that is `op` or holds it in a subgraph."""
    while op.graph is not graph:
        if op.graph.owner is None:
            return None
        op = op.graph.owner
    return op


def all_names(graph: Graph) -> Iterator[str]:
    """Every value name in a graph and in those inside it."""
    for g in graph.with_subgraphs():
        yield from (v.name for v in (*g.inputs, *g.initializers, *g.sparse))
        yield from (v.name for v, _ in g.declared.inputs)
        for op in g.ops():
            yield from (v.name for v in op.outputs)


def all_constants(graph: Graph) -> Iterator[Value]:
    """The constants of a graph and of those inside it: initializers and what Constant ops hold."""
    for g in graph.with_subgraphs():
        yield from g.initializers
        for op in g.ops("Constant"):
            yield from op.outputs
