"""What comes into a graph and what leaves it, in order: the mutators say it here, so that changes can be weighed.

What became of values and ops: the mutators of Graph say it here, in O(1) each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .op import Op
from .origin import remember
from .tensor import Tensor
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph


class Move(NamedTuple):
    """Nodes and bytes of constants that came, or, below zero, went; and the op that they came or went with."""

    nodes: int
    nbytes: int
    op: Op | None = None


@dataclass(slots=True)
class Moves:
    """The moves that nobody has asked for yet. Kept only where changes are to be weighed."""

    noted: list[Move] = field(default_factory=list[Move])

    def take(self, count: int | None = None) -> list[Move]:
        """The first `count` moves, or all; they are forgotten here."""
        taken, self.noted = self.noted[:count], [] if count is None else self.noted[count:]
        return taken


def note_came(moves: Moves | None, op: Op) -> None:
    """`op` was put into a graph; what its bodies hold came by itself."""
    if moves is not None and not _is_gone(op.graph):
        moves.noted.append(Move(1, 0, op))


def note_went(moves: Moves | None, op: Op) -> None:
    """`op` is about to go, and with it what its bodies hold, unless another op has them by now."""
    if moves is not None and not _is_gone(op.graph):
        inner = [g for sub in op.subgraphs if sub.owner is op for g in sub.with_subgraphs()]
        nodes = 1 + sum(map(len, inner))
        held = sum(map(_held, op.outputs)) + sum(_held(v) for g in inner for v in _own_constants(g))
        moves.noted.append(Move(-nodes, -held, op))


def hold(moves: Moves | None, value: Value, tensor: Tensor) -> None:
    """Make `value` a constant; that of a Constant op was one already."""
    if moves is not None:
        moves.noted.append(Move(0, tensor.nbytes - _held(value)))
    value.hold(tensor)


def note_dropped(moves: Moves | None, graph: Graph, value: Value) -> None:
    """An initializer of `graph` is about to go."""
    if moves is not None and not _is_gone(graph):
        moves.noted.append(Move(0, -_held(value)))


def _is_gone(graph: Graph) -> bool:
    """Whether the op that holds a body has gone, and the body with it, though somebody still works on it."""
    owner = graph.owner
    while owner is not None:
        if owner not in owner.graph:
            return True
        owner = owner.graph.owner
    return False


def _own_constants(graph: Graph) -> Iterator[Value]:
    """The constants that go with a body: not those that were moved to a graph around it."""
    for v in graph.initializers:
        outer = graph.owner.graph if graph.owner is not None else None
        while outer is not None and v not in outer.initializers:
            outer = outer.owner.graph if outer.owner is not None else None
        if outer is None:
            yield v
    for op in graph.ops():
        yield from op.outputs


def _held(value: Value) -> int:
    return value.tensor.nbytes if value.tensor is not None else 0


@dataclass(slots=True)
class Trace:
    """All that was noted. It stays in memory, so it is kept only where a name map is wanted.

    `values`: what the readers of a value were pointed at. `successors`: what was made of an op. `twins`: the op
    whose values stand for those of another. `labels`: what an op was called before its outputs changed.
    `removed`: in that order.
    """

    values: dict[Value, Value] = field(default_factory=dict[Value, Value])
    successors: dict[Op, dict[Op, None]] = field(default_factory=dict[Op, dict[Op, None]])
    twins: dict[Op, Op] = field(default_factory=dict[Op, Op])
    labels: dict[Op, str] = field(default_factory=dict[Op, str])
    removed: list[Op] = field(default_factory=list[Op])

    def replaced(self, ops: Iterable[Op], by: Op) -> None:
        """`by` was made out of `ops`."""
        for op in ops:
            self.successors.setdefault(op, {})[by] = None


def note_moved(trace: Trace | None, old: Value, new: Value, *, swaps: bool) -> None:
    """The readers of `old` are about to read `new`, which is the same; if it `swaps`, names are exchanged."""
    if swaps:
        remember(old.producer)
        remember(new.producer)
    if trace is None:
        return
    trace.values[old] = new
    if old.producer is not None:
        trace.labels[old.producer] = old.producer.label
        if new.producer is not None:
            trace.labels[new.producer] = new.producer.label
            trace.twins[old.producer] = new.producer


def note_detached(trace: Trace | None, op: Op) -> None:
    """An output of `op` is about to be had from elsewhere."""
    remember(op)
    if trace is not None:
        trace.labels[op] = op.label


def note_taken_over(trace: Trace | None, new: Value, old: Value) -> None:
    """What produces `new` is about to produce `old` instead."""
    remember(new.producer)
    if trace is not None:
        trace.values[new] = old


def note_removed(trace: Trace | None, op: Op) -> None:
    """`op` is about to go."""
    if trace is not None:
        trace.removed.append(op)
