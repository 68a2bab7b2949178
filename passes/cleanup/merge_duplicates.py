"""Elimination of common subexpressions."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from ...core import ChangeLog, Graph, Op, is_pure
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ..support.value_numbering import NodeKey, ValueNumbering, attribute_key, canonical_inputs, operator_key


class MergeDuplicates(Struct, frozen=True):
    """Two ops of one kind with equal attributes and the same inputs, in any order if they commute, become one.

    Bodies are equal if they compute the same. An op in a body goes if one outside does its work already.
    """

    name: str = "merge-duplicates"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Merge in one sweep in dependency order. O(ops times nesting depth)."""
        return self._merge(graph, Scope(), change_log)

    def _merge(self, g: Graph, scope: Scope, change_log: ChangeLog) -> int:
        changes = 0
        for op in g.sorted_ops():
            for sub in op.subgraphs:  # first, so that equal bodies look equal
                changes += self._merge(sub, scope.child(op), change_log)
            if (op.is_stripped and not op.subgraphs) or op.type == "Constant":
                continue
            twin = scope.find_equal(op)
            changes += twin is not op and self._replace(g, op, twin, change_log)
        return changes

    def _replace(self, g: Graph, op: Op, twin: Op, change_log: ChangeLog) -> bool:
        both = zip(op.outputs, twin.outputs, strict=False)
        pairs = [(old, new) for old, new in both if old.consumers or g.is_output(old)]
        if (
            len(op.outputs) > len(twin.outputs)
            or not pairs
            or any(not new.name or old in g.pinned for old, new in pairs)
        ):
            return False
        foreign = twin.graph is not g
        if any(g.is_output(old) and (foreign or g.is_output(new) or new in g.pinned) for old, new in pairs):
            return False
        if not change_log.request_change(self.name, pairs[0][0].name, (op, twin)):
            return False
        for old, new in pairs:
            g.replace_uses(old, new)
        g.prune([op])
        return True


@dataclass(slots=True)
class Scope:
    """The ops visited so far in a graph and those around it."""

    outer: tuple[Scope, ...] = ()
    numbering: ValueNumbering = field(default_factory=ValueNumbering)
    first_by_key: dict[NodeKey, Op | None] = field(default_factory=dict[NodeKey, Op | None])
    """The first op of each head until a second comes, for which the details of the first are decoded."""
    by_full_key: dict[NodeKey, Op] = field(default_factory=dict[NodeKey, Op])

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scope itself and those around it. Not stored, as a reference cycle would keep it alive after the pass."""
        return (self, *self.outer)

    def child(self, op: Op) -> Scope:
        """The scope of a body of `op`."""
        sees_outside = op.type in ops_with(Trait.CAPTURES) and not op.domain
        return Scope(self.scopes, self.numbering) if sees_outside else Scope()

    def find_equal(self, op: Op) -> Op:
        """The first op with the results of `op`; `op` itself if there was none."""
        start = (*operator_key(op), *canonical_inputs(op, op.inputs, id))  # all but attributes
        around = self.scopes
        others = [scope for scope in around if start in scope.first_by_key]
        if not others:
            self.first_by_key[start] = op
        if not others or not is_pure(op):
            return op
        for scope in others:
            if (other := scope.first_by_key[start]) is not None:
                scope.by_full_key.setdefault((*start, *self._detail_key(other)), other)
                scope.first_by_key[start] = None
        key = (*start, *self._detail_key(op))
        for scope in around:
            twin = scope.by_full_key.get(key)
            if twin is not None and twin in twin.graph:
                return twin
        self.by_full_key[key] = op
        return op

    def _detail_key(self, op: Op) -> NodeKey:
        """The rest of the key that equal ops share: attributes, and the values of their bodies."""
        return attribute_key(op), *self.numbering.bodies(op)
