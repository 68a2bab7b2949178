"""Merging of equal constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...core import Graph, Ledger, Tensor, Value
from ...core.ir.digest import SAMPLE_BYTES, digest, sample_key
from ...core.ir.effects import writes_inputs
from ...core.ir.subgraphs import CAPTURING_OPS
from ..support.unique_names import NameDisambiguator


@dataclass(frozen=True, slots=True)
class MergeConstants:
    """Initializers of the same type, shape and content become one; of different bodies, in the outermost graph."""

    name: str = "merge-constants"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Merge across all graphs. O(constants); only likely twins are read."""
        return self._merge(graph, ConstantTable(), NameDisambiguator(graph), ledger)

    def _merge(self, g: Graph, outer: ConstantTable, namer: NameDisambiguator, ledger: Ledger) -> int:
        changes = 0
        known = outer if g.owner is None else ConstantTable(outer, outer.hoistable)
        for value in tuple(g.initializers):
            tensor = value.tensor
            if tensor is None or not is_mergeable(g, value):
                continue
            twin = known.find_equal(ConstantSite(value, g), tensor)
            if twin.value is not value and value.consumers and ledger.request_change(self.name, value.name, (value,)):
                if twin.graph not in enclosing(g):
                    hoist_constant(twin, namer)
                g.replace_uses(value, twin.value)
                g.drop_initializer(value)
                changes += 1
        return changes + sum(self._merge(sub, known, namer, ledger) for sub in subgraphs_of(g))


@dataclass(frozen=True, slots=True)
class ConstantSite:
    """A constant and the graph that held it when it was found."""

    value: Value
    graph: Graph


@dataclass(slots=True)
class ConstantTable:
    """Constants met so far, by content. A large tensor is read only if its size and a sample occur twice.

    `local` are those of one graph, `hoistable` those of all bodies whose constants may as well stand outside.
    """

    outer: ConstantTable | None = None
    hoistable: dict[object, ConstantSite] = field(default_factory=dict[object, ConstantSite])
    local: dict[object, ConstantSite] = field(default_factory=dict[object, ConstantSite])

    def find_equal(self, held: ConstantSite, tensor: Tensor) -> ConstantSite:
        """The first constant with the content of this one; itself if there was none."""
        key = sample_key(tensor)
        other = self.lookup_or_add(key, held)
        if other.value is held.value or len(tensor.comparable_bytes()) <= 3 * SAMPLE_BYTES:
            return other
        if other.value.tensor is not None:
            self.lookup_or_add((key, digest(other.value.tensor)), other)
        return self.lookup_or_add((key, digest(tensor)), held)

    def lookup_or_add(self, key: object, held: ConstantSite) -> ConstantSite:
        """Look `key` up in this graph, those around it and all others; add `held` where it is missing."""
        scope: ConstantTable | None = self
        while scope is not None:
            if key in scope.local:
                return scope.local[key]
            scope = scope.outer
        may_leave = may_capture_constants(held.graph)
        other = self.hoistable.get(key) if may_leave else None
        if other is not None and any(other.value in g.initializers for g in (other.graph, root_of(other.graph))):
            return other
        self.local[key] = held
        if may_leave:
            self.hoistable[key] = held
        return held


def hoist_constant(held: ConstantSite, namer: NameDisambiguator) -> None:
    """Move a constant from a body to the outermost graph, if it is not there yet."""
    if held.value in held.graph.initializers and held.graph.owner is not None:
        namer.make_unique([held.value])
        del held.graph.initializers[held.value]
        namer.root.initializers[held.value] = None
        namer.root.mark_changed()


def enclosing(g: Graph) -> Iterator[Graph]:
    """The graph and those around it, innermost first."""
    yield g
    while g.owner is not None:
        g = g.owner.graph
        yield g


def root_of(g: Graph) -> Graph:
    """The outermost graph around `g`."""
    return g if g.context.root is None else g.context.root


def may_capture_constants(g: Graph) -> bool:
    """Whether a graph, and each that it is in, may read any constant from outside."""
    owners = (inner.owner for inner in enclosing(g))
    return not g.context.initializers_are_inputs and all(
        op is None or (op.type in CAPTURING_OPS and not op.domain) for op in owners
    )


def subgraphs_of(g: Graph) -> Iterator[Graph]:
    """The subgraphs of a graph's ops."""
    for op in g.ops():
        yield from op.subgraphs


def is_mergeable(g: Graph, value: Value) -> bool:
    """Whether the name of the value is free to change, and no consumer may write to it."""
    return not g.is_output(value) and value not in g.pinned and not any(map(writes_inputs, value.consumers))
