"""What comes into a graph and what leaves it, in order: the mutators say it here, so that changes can be weighed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .op import Op
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
