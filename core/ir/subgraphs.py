"""Queries on subgraphs: the ops, constants and names in them, and their uses of outer values."""

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


def all_value_names(graph: Graph) -> Iterator[str]:
    """Every value name in a graph and in those inside it."""
    for g in graph.with_subgraphs():
        yield from (v.name for v in (*g.inputs, *g.initializers, *g.sparse_initializers))
        yield from (v.name for v, _ in g.declared.inputs)
        for op in g.ops():
            yield from (v.name for v in op.outputs)


def is_counted(op: Op) -> bool:
    """Whether an op counts as a node in reports: Constant ops do not, as they hold weights like initializers."""
    return op.type != "Constant" or bool(op.domain)


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
