"""Taking out what nothing needs any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import GraphError
from .effects import may_drop
from .moves import note_dropped, note_went
from .op import Op
from .origin import remember
from .trace import note_removed
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph


def prune(ops: Iterable[Op]) -> int:
    """Remove those of `ops` that became dead and may go, and what dies with them. O(removed)."""
    stack, removed = list(ops), 0
    while stack:
        op = stack.pop()
        if may_drop(op) and _is_dead(op):
            removed += 1
            stack += _taken_out(op)
    return removed


def discard(ops: Iterable[Op]) -> int:
    """Remove those of `ops` that became dead, whatever they are, and what dies with them. O(removed)."""
    removed = 0
    for op in ops:
        if _is_dead(op):
            removed += 1 + prune(_taken_out(op))
    return removed


def _is_dead(op: Op) -> bool:
    return op in op.graph and all(map(op.graph.is_free, op.outputs))


def _taken_out(op: Op) -> list[Op]:
    """Remove an op and the constants that only it read; returns the ops that fed it."""
    home = op.graph
    read = {v: None for v in (*op.inputs, *op.captures) if v is not None}
    home.remove_op(op)
    for v in read:
        if v.producer is None and not v.uses:
            drop_initializer(home, v)
    return [v.producer for v in read if v.producer is not None]


def drop_initializer(graph: Graph, value: Value) -> bool:
    """Remove a constant that nothing uses from whichever enclosing graph holds it."""
    home: Graph | None = graph
    while home is not None and value not in home.initializers:
        home = home.owner.graph if home.owner is not None else None
    if home is None or not home.is_free(value):
        return False
    note_dropped(home.shared.moves, home, value)
    del home.initializers[value]
    home.changed()
    return True


def withdraw(op: Op) -> None:
    """Take an op out of its graph, whoever reads what it made: that has no producer then."""
    home = op.graph
    note_removed(home.shared.trace, op)
    note_went(home.shared.moves, op)
    for v in op.outputs:
        v.producer = None
    for v in op.inputs:
        if v is not None:
            v.drop_use(op)
    for sub in op.subgraphs:
        release(sub, op)
    home.forget(op)
    home.changed()


def release(graph: Graph, owner: Op) -> None:
    """Let go of everything outside that a subgraph reads, when its owner goes."""
    for v in graph.outputs:
        v.drop_use(owner)
    for op in graph.ops():
        for v in op.inputs:
            if v is not None:
                v.drop_use(op)
        for sub in op.subgraphs:
            release(sub, op)


def leave_out(op: Op, index: int) -> None:
    """Ask no longer for an output of `op` that nothing looks at; the last ones go, others lose their names."""
    value = op.outputs[index]
    if not op.graph.is_free(value):
        raise GraphError(f"cannot leave out {value.name} of {op.label}: it is still used")
    remember(op)
    value.producer = None
    unnamed = Value("")
    unnamed.producer = op
    kept = [*op.outputs[:index], unnamed, *op.outputs[index + 1 :]]
    while len(kept) > 1 and not kept[-1].name:
        kept.pop().producer = None
    op.connect("outputs", kept)
    op.graph.changed()
