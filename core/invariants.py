"""What must hold of a graph at every moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .errors import GraphError
from .values import Op, Value

if TYPE_CHECKING:
    from .graph import Graph


def check_invariants(graph: Graph, by_type: Mapping[str, Mapping[Op, None]]) -> None:
    """Raise GraphError unless edges agree, the index is exact, outputs are there and no cycle is. O(V + E)."""
    ops = list(graph.ops())
    for op in ops:
        if op.graph is not graph or op not in by_type.get(op.type, ()):
            raise GraphError(f"{op.label} is not indexed where it stands")
        _check_edges(op)
        for sub in op.subgraphs:
            if sub.owner is not op:
                raise GraphError(f"a subgraph of {op.label} has another owner")
            sub.validate()
    if sum(map(len, by_type.values())) != len(ops):
        raise GraphError("the op-type index is stale")
    sources = {*graph.inputs, *graph.initializers, *graph.sparse}
    for v in graph.outputs:
        if v not in sources and not _is_produced(v) and graph.owner is None:
            raise GraphError(f"output {v.name} is gone")
    graph.sorted_ops()


def _check_edges(op: Op) -> None:
    for v in op.inputs:
        if v is not None and op not in v.uses:
            raise GraphError(f"{v.name} does not know that {op.label} reads it")
        if v is not None and v.producer is not None and not _is_produced(v):
            raise GraphError(f"{v.name} is read by {op.label}, but its producer is gone")
    for v in op.outputs:
        if v.producer is not op:
            raise GraphError(f"{op.label} does not produce {v.name}, which it lists")
        for user in v.uses:
            if v not in user.inputs and v not in user.captures:
                raise GraphError(f"{user.label} counts as a user of {v.name}, which it does not read")


def _is_produced(value: Value) -> bool:
    op = value.producer
    return op is not None and op in op.graph and value in op.outputs
