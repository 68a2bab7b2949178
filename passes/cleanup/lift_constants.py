"""Conversion of Constant ops to initializers."""

from __future__ import annotations

from dataclasses import dataclass

from ...core import Graph, Ledger


@dataclass(frozen=True, slots=True)
class LiftConstants:
    """Constant ops become initializers of the same name."""

    name: str = "lift-constants"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Lift every dense Constant. O(constants)."""
        return sum(self._lift(g, ledger) for g in tuple(graph.with_subgraphs()) if g.can_hold_initializers)

    def _lift(self, g: Graph, ledger: Ledger) -> int:
        changes = 0
        for op in g.ops("Constant"):
            value = op.outputs[0] if op.outputs and not op.domain else None
            if value is None or value.tensor is None or not ledger.request_change(self.name, value.name, (op,)):
                continue
            g.make_constant(value, value.tensor)
            g.prune([op])
            changes += 1
        return changes
