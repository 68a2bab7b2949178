"""Removal of dead ops and unused initializers."""

from __future__ import annotations

from dataclasses import dataclass

from ...core import Graph, Ledger, may_drop


@dataclass(frozen=True, slots=True)
class RemoveUnused:
    """Ops and initializers that no output depends on. Inputs of the graph always stay."""

    name: str = "remove-unused"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Remove dead ops, last first, then initializers. O(ops)."""
        changes = 0
        for g in graph.with_subgraphs():  # as it goes on: not into the bodies of what has gone
            for op in reversed(tuple(g.ops())):
                if op in g and all(map(g.is_unused, op.outputs)) and may_drop(op):
                    place = op.outputs[0].name if op.outputs else op.name
                    if ledger.request_change(self.name, place, (op,)):
                        changes += g.prune([op])
        for g in tuple(graph.with_subgraphs()):
            for value in tuple(g.initializers):
                if g.is_unused(value) and ledger.request_change(self.name, value.name, (value,)):
                    changes += g.drop_initializer(value)
        return changes
