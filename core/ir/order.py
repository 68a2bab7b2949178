"""Topological order that keeps to the order of the file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import attrgetter

from ..errors import GraphError
from .op import Op


def in_order(ops: Collection[Op]) -> list[Op]:
    """All `ops` of one graph, each after those it depends on, otherwise by their key. Raises GraphError on a cycle."""
    order = sorted(ops, key=attrgetter("key"))
    seen: set[Op] = set()
    for op in order:  # written out, since every pass over a whole graph goes through here
        for v in (*op.inputs, *op.captures) if op.subgraphs else op.inputs:
            if v is not None and (p := v.producer) is not None and p not in seen and p.graph is op.graph:
                return by_dependency(order)
        seen.add(op)
    return order


def feeders(op: Op) -> Iterator[Op]:
    """The ops of the same graph that `op` depends on, through its subgraphs too."""
    values = (*op.inputs, *op.captures) if op.subgraphs else op.inputs
    for v in values:
        if v is not None and (p := v.producer) is not None and p.graph is op.graph:
            yield p


def by_dependency(order: list[Op]) -> list[Op]:
    """Depth first from each op in turn, so that what was in order stays in order. O(V + E)."""
    done: dict[Op, None] = {}
    for start in order:
        path: dict[Op, Iterator[Op]] = {} if start in done else {start: feeders(start)}
        while path:
            op, waiting = next(reversed(path.items()))
            pending = next((p for p in waiting if p not in done), None)
            if pending is None:
                path.popitem()
                done[op] = None
            elif pending in path:
                cycle = [o.label for o in path][list(path).index(pending) :]
                raise GraphError(f"the graph has a cycle: {' <- '.join(cycle[:8])}")
            else:
                path[pending] = feeders(pending)
    return list(done)
