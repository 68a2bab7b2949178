"""What comes into a graph and what leaves it, in order: the mutators say it here, so that changes can be weighed.

What became of values and ops: the mutators of Graph say it here, in O(1) each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .op import Op
from .origin import record_source
from .tensor import Tensor
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph


class Mutation(NamedTuple):
    """Nodes and bytes of constants that came, or, below zero, went; and the op that they came or went with."""

    node_delta: int
    byte_delta: int
    op: Op | None = None


@dataclass(slots=True)
class MutationLog:
    """The moves that nobody has asked for yet. Kept only where changes are to be weighed."""

    entries: list[Mutation] = field(default_factory=list[Mutation])

    def drain(self, count: int | None = None) -> list[Mutation]:
        """The first `count` moves, or all; they are forgotten here."""
        taken, self.entries = self.entries[:count], [] if count is None else self.entries[count:]
        return taken


def log_insertion(log: MutationLog | None, op: Op) -> None:
    """`op` was put into a graph; what its bodies hold came by itself."""
    if log is not None and not _is_in_removed_op(op.graph):
        log.entries.append(Mutation(1, 0, op))


def log_removal(log: MutationLog | None, op: Op) -> None:
    """`op` is about to go, and with it what its bodies hold, unless another op has them by now."""
    if log is not None and not _is_in_removed_op(op.graph):
        inner = [g for sub in op.subgraphs if sub.owner is op for g in sub.with_subgraphs()]
        nodes = 1 + sum(map(len, inner))
        held = sum(map(_constant_nbytes, op.outputs)) + sum(
            _constant_nbytes(v) for g in inner for v in _own_constants(g)
        )
        log.entries.append(Mutation(-nodes, -held, op))


def set_constant(log: MutationLog | None, value: Value, tensor: Tensor) -> None:
    """Make `value` a constant; that of a Constant op was one already."""
    if log is not None:
        log.entries.append(Mutation(0, tensor.nbytes - _constant_nbytes(value)))
    value.set_constant(tensor)


def log_initializer_removal(log: MutationLog | None, graph: Graph, value: Value) -> None:
    """An initializer of `graph` is about to go."""
    if log is not None and not _is_in_removed_op(graph):
        log.entries.append(Mutation(0, -_constant_nbytes(value)))


def _is_in_removed_op(graph: Graph) -> bool:
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


def _constant_nbytes(value: Value) -> int:
    return value.tensor.nbytes if value.tensor is not None else 0


@dataclass(slots=True)
class ReplacementLog:
    """All that was noted. It stays in memory, so it is kept only where a name map is wanted.

    `replaced_values`: what the readers of a value were pointed at. `derived_ops`: what was made of an op.
    `equivalent_ops`: the op whose values stand for those of another. `original_labels`: what an op was called before
    its outputs changed. `removed_ops`: in that order.
    """

    replaced_values: dict[Value, Value] = field(default_factory=dict[Value, Value])
    derived_ops: dict[Op, dict[Op, None]] = field(default_factory=dict[Op, dict[Op, None]])
    equivalent_ops: dict[Op, Op] = field(default_factory=dict[Op, Op])
    original_labels: dict[Op, str] = field(default_factory=dict[Op, str])
    removed_ops: list[Op] = field(default_factory=list[Op])

    def record_derived(self, ops: Iterable[Op], by: Op) -> None:
        """`by` was made out of `ops`."""
        for op in ops:
            self.derived_ops.setdefault(op, {})[by] = None


def record_use_replacement(log: ReplacementLog | None, old: Value, new: Value, *, swaps: bool) -> None:
    """The readers of `old` are about to read `new`, which is the same; if it `swaps`, names are exchanged."""
    if swaps:
        record_source(old.producer)
        record_source(new.producer)
    if log is None:
        return
    log.replaced_values[old] = new
    if old.producer is not None:
        log.original_labels[old.producer] = old.producer.label
        if new.producer is not None:
            log.original_labels[new.producer] = new.producer.label
            log.equivalent_ops[old.producer] = new.producer


def record_detached(log: ReplacementLog | None, op: Op) -> None:
    """An output of `op` is about to be had from elsewhere."""
    record_source(op)
    if log is not None:
        log.original_labels[op] = op.label


def record_takeover(log: ReplacementLog | None, new: Value, old: Value) -> None:
    """What produces `new` is about to produce `old` instead."""
    record_source(new.producer)
    if log is not None:
        log.replaced_values[new] = old


def record_removed(log: ReplacementLog | None, op: Op) -> None:
    """`op` is about to go."""
    if log is not None:
        log.removed_ops.append(op)
