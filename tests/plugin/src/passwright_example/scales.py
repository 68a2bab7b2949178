"""Removal of factors close to 1, and a pipeline that includes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from passwright.core import ChangeLog, Graph, Op, PassPlacement, Plugin

from .hyperbolic import cosh_of_either_sign


@dataclass(frozen=True)
class DropScales:
    """x * c => x, where no element of c is further than `tolerance` from 1.

    Verification rejects changes beyond its tolerance.
    """

    tolerance: float = field(default=0.0, metadata={"doc": "how far a factor may be from 1"})
    name: str = "drop-scales"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        return sum(self._dropped(op, change_log) for g in graph.with_subgraphs() for op in g.sorted_ops())

    def _dropped(self, op: Op, change_log: ChangeLog) -> bool:
        if op.type != "Mul" or (x := op.inputs[0]) is None or (c := op.inputs[1]) is None:
            return False
        (y,) = op.outputs
        if not c.is_const or c.const.size != 1 or abs(c.const.item() - 1) > self.tolerance:
            return False
        if not change_log.request_change(self.name, y.name, (op,), exact=self.tolerance == 0):
            return False
        op.graph.replace_value(y, x)
        op.graph.prune([op])
        return True


PLUGIN = Plugin(
    passes=(PassPlacement(DropScales(), stage="cleanup", after=("drop-identity",)), cosh_of_either_sign),
    pipelines={"example": "basic,drop-scales{tolerance=1e-9}"},
    passwright=">=0.1,<1",
    opsets=(13, 25),
)
