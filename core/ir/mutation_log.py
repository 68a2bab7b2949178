"""Logs of mutations, written by the mutators of Graph in O(1) each: sizes for reports, replacements for name maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .op import Op
from .origin import record_source
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph


class Mutation(NamedTuple):
    """Nodes and bytes of constants that were added or, if negative, removed; and the op of which they are part."""

    node_delta: int
    byte_delta: int
    op: Op | None = None


@dataclass(slots=True)
class MutationLog:
    """The mutations that were not drained yet. Kept only where the sizes of changes are recorded."""

    entries: list[Mutation] = field(default_factory=list[Mutation])

    def drain(self, count: int | None = None) -> list[Mutation]:
        """Remove and return the first `count` mutations, or all."""
        taken, self.entries = self.entries[:count], [] if count is None else self.entries[count:]
        return taken

    def record(self, graph: Graph, node_delta: int, byte_delta: int, op: Op | None = None) -> None:
        """Log a mutation of `graph`, unless the graph was removed with an owner while a pass still rewrites it."""
        if all(g.owner is None or g.owner in g.owner.graph for g in graph.with_enclosing()):
            self.entries.append(Mutation(node_delta, byte_delta, op))

    def record_removal(self, op: Op) -> None:
        """Log that `op` is about to be removed, with its subgraphs unless another op owns them by now."""
        inner = [g for sub in op.subgraphs if sub.owner is op for g in sub.with_subgraphs()]
        constants = (*op.outputs, *(v for g in inner for v in _own_constants(g)))
        self.record(op.graph, -1 - sum(map(len, inner)), -sum(map(constant_nbytes, constants)), op)


def _own_constants(graph: Graph) -> Iterator[Value]:
    """The constants that are removed with a subgraph, without those that were moved to an enclosing graph."""
    outer = list(graph.with_enclosing())[1:]
    yield from (v for v in graph.initializers if not any(v in g.initializers for g in outer))
    for op in graph.ops():
        yield from op.outputs


def constant_nbytes(value: Value) -> int:
    """Bytes of a value's elements, 0 for a computed one."""
    return value.tensor.nbytes if value.tensor is not None else 0


@dataclass(slots=True)
class ReplacementLog:
    """Replacements of values and ops during a run. It stays in memory, so it is kept only for name maps.

    `replaced_values`: the replacement of a value. `derived_ops`: the ops made from an op. `equivalent_ops`: the op
    whose outputs replace those of another. `original_labels`: the label of an op before its outputs changed.
    `removed_ops`: in the order of removal. `value_names`, `op_names`: unique names of all values and ops when the log
    began, `initializers` those of the values that had no producer and a content.
    """

    value_names: dict[Value, str]
    op_names: dict[Op, str]
    initializers: tuple[Value, ...]

    replaced_values: dict[Value, Value] = field(default_factory=dict[Value, Value])
    derived_ops: dict[Op, dict[Op, None]] = field(default_factory=dict[Op, dict[Op, None]])
    equivalent_ops: dict[Op, Op] = field(default_factory=dict[Op, Op])
    original_labels: dict[Op, str] = field(default_factory=dict[Op, str])
    removed_ops: list[Op] = field(default_factory=list[Op])


def record_use_replacement(log: ReplacementLog | None, old: Value, new: Value, *, swaps: bool) -> None:
    """Record that consumers of `old` are about to read the equal `new`; if it `swaps`, names are exchanged."""
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
