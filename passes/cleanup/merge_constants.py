"""Equal constants are stored once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...core import Graph, Ledger, Tensor, Value
from ...core.ir.digest import SAMPLE, digest, glance
from ...core.ir.effects import writes_inputs
from ..support.unique_names import Namer


@dataclass(frozen=True, slots=True)
class MergeConstants:
    """Initializers of the same type, shape and content become one; of different bodies, in the outermost graph."""

    name: str = "merge-constants"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Merge across all graphs. O(constants); only likely twins are read."""
        return self._merge(graph, Known(), Namer(graph), ledger)

    def _merge(self, g: Graph, outer: Known, namer: Namer, ledger: Ledger) -> int:
        changes = 0
        known = outer if g.owner is None else Known(outer, outer.anywhere)
        for value in tuple(g.initializers):
            tensor = value.tensor
            if tensor is None or not mergeable(g, value):
                continue
            twin = known.twin(Held(value, g), tensor)
            if twin.value is not value and value.uses and ledger.permits(self.name, value.name, (value,)):
                if twin.graph not in enclosing(g):
                    lift(twin, namer)
                g.replace_uses(value, twin.value)
                g.drop_initializer(value)
                changes += 1
        return changes + sum(self._merge(sub, known, namer, ledger) for sub in inner_graphs(g))


@dataclass(frozen=True, slots=True)
class Held:
    """A constant and the graph that holds it, or did when it was met."""

    value: Value
    graph: Graph


@dataclass(slots=True)
class Known:
    """Constants met so far, by content. A large tensor is read only if its size and a sample occur twice.

    `found` are those of one graph, `anywhere` those of all bodies whose constants may as well stand outside.
    """

    outer: Known | None = None
    anywhere: dict[object, Held] = field(default_factory=dict[object, Held])
    found: dict[object, Held] = field(default_factory=dict[object, Held])

    def twin(self, held: Held, tensor: Tensor) -> Held:
        """The first constant with the content of this one; itself if there was none."""
        key = glance(tensor)
        other = self.first(key, held)
        if other.value is held.value or len(tensor.content()) <= 3 * SAMPLE:
            return other
        if other.value.tensor is not None:
            self.first((key, digest(other.value.tensor)), other)
        return self.first((key, digest(tensor)), held)

    def first(self, key: object, held: Held) -> Held:
        """What an enclosing graph, this one or another has under `key`; `held` from now on if there is nothing."""
        scope: Known | None = self
        while scope is not None:
            if key in scope.found:
                return scope.found[key]
            scope = scope.outer
        may_leave = runs_in_place(held.graph)
        other = self.anywhere.get(key) if may_leave else None
        if other is not None and any(other.value in g.initializers for g in (other.graph, root_of(other.graph))):
            return other
        self.found[key] = held
        if may_leave:
            self.anywhere[key] = held
        return held


def lift(held: Held, namer: Namer) -> None:
    """Move a constant from a body to the outermost graph, if it is not there yet."""
    if held.value in held.graph.initializers and held.graph.owner is not None:
        namer.tell_apart([held.value])
        del held.graph.initializers[held.value]
        namer.root.initializers[held.value] = None
        namer.root.changed()


def enclosing(g: Graph) -> Iterator[Graph]:
    """The graph and those around it, innermost first."""
    yield g
    while g.owner is not None:
        g = g.owner.graph
        yield g


def root_of(g: Graph) -> Graph:
    """The outermost graph around `g`."""
    return g if g.shared.root is None else g.shared.root


def runs_in_place(g: Graph) -> bool:
    """Whether a graph, and each that it is in, may read any constant from outside."""
    owners = (inner.owner for inner in enclosing(g))
    return not g.shared.initializers_are_inputs and all(
        op is None or (op.type in {"If", "Loop", "Scan"} and not op.domain) for op in owners
    )


def inner_graphs(g: Graph) -> Iterator[Graph]:
    """The subgraphs of a graph's ops."""
    for op in g.ops():
        yield from op.subgraphs


def mergeable(g: Graph, value: Value) -> bool:
    """Whether the value has no name to keep, and no reader that may write to it."""
    return not g.is_output(value) and value not in g.pinned and not any(map(writes_inputs, value.uses))
