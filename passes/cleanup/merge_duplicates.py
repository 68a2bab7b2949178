"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core import Graph, Ledger, Op, is_pure
from ..support.value_numbering import Key, Numbering, attributes, bodies_of, in_any_order, kind

RUNS_IN_PLACE = frozenset({"If", "Loop", "Scan"})  # their bodies may read what is outside


@dataclass(frozen=True, slots=True)
class MergeDuplicates:
    """Two ops of one kind with equal attributes and the same inputs, in any order if they commute, become one.

    Bodies are equal if they compute the same. An op in a body goes if one outside does its work already.
    """

    name: str = "merge-duplicates"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """One sweep in dependency order finds all there are. O(ops, times how deep they are nested)."""
        return self._merge(graph, Scope(), ledger)

    def _merge(self, g: Graph, scope: Scope, ledger: Ledger) -> int:
        changes = 0
        for op in g.sorted_ops():
            for sub in op.subgraphs:  # first, so that equal bodies look equal
                changes += self._merge(sub, scope.inside(op), ledger)
            if (op.hollow and not op.subgraphs) or op.type == "Constant":
                continue
            twin = scope.twin(op)
            changes += twin is not op and self._replace(g, op, twin, ledger)
        return changes

    def _replace(self, g: Graph, op: Op, twin: Op, ledger: Ledger) -> bool:
        pairs = [(old, new) for old, new in zip(op.outputs, twin.outputs, strict=False) if old.uses or g.is_output(old)]
        if len(op.outputs) > len(twin.outputs) or not pairs or any(not new.name for _, new in pairs):
            return False
        if any(old in g.pinned for old, _ in pairs):
            return False
        foreign = twin.graph is not g
        if any(g.is_output(old) and (foreign or g.is_output(new) or new in g.pinned) for old, new in pairs):
            return False
        if not ledger.permits(self.name, pairs[0][0].name, (op, twin)):
            return False
        for old, new in pairs:
            g.replace_uses(old, new)
        g.prune([op])
        return True


@dataclass(slots=True)
class Scope:
    """The ops met so far in a graph and those around it."""

    outer: tuple[Scope, ...] = ()
    numbering: Numbering = field(default_factory=Numbering)
    alone: dict[Key, Op] = field(default_factory=dict[Key, Op])
    """The first op of each head; its attributes are decoded when a second comes."""
    known: dict[Key, Op] = field(default_factory=dict[Key, Op])

    @property
    def around(self) -> tuple[Scope, ...]:
        """The scope itself and those around it. Not kept: in a cycle it would outlive the pass, with all it knows."""
        return (self, *self.outer)

    def inside(self, op: Op) -> Scope:
        """The scope of a body of `op`."""
        sees_outside = op.type in RUNS_IN_PLACE and not op.domain
        return Scope(self.around, self.numbering) if sees_outside else Scope()

    def twin(self, op: Op) -> Op:
        """The first op that computes what `op` does; itself if there was none."""
        start = head(op)
        around = self.around
        others = [(scope, scope.alone[start]) for scope in around if start in scope.alone]
        if not others:
            self.alone[start] = op
        if not others or not is_pure(op):
            return op
        for scope, other in others:
            scope.known.setdefault((*start, *self._details(other)), other)
        key = (*start, *self._details(op))
        for scope in around:
            twin = scope.known.get(key)
            if twin is not None and twin in twin.graph:
                return twin
        self.known[key] = op
        return op

    def _details(self, op: Op) -> Key:
        """What two equal ops of one head agree on: attributes, and what their bodies compute."""
        bodies = [(name, len(g.inputs), *self.numbering.outputs(g)) for name, g in bodies_of(op)]
        return attributes(op), *bodies


def head(op: Op) -> Key:
    """What two equal ops agree on before their attributes are looked at."""
    return (*kind(op), *in_any_order(op, op.inputs, id))
