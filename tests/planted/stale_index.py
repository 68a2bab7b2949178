"""A pass turns one operator into another by writing its type, which the index by type does not learn of."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z) {
    a = Sum(x, t)
    y = Abs(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("stale-index", "a"),)
WHY = "invalid"
AFTER = {"Abs": 1, "Exp": 1, "Sum": 1}


@dataclass(frozen=True)
class StaleIndex:
    """Sum(a, b) => Add(a, b)"""

    name: str = "stale-index"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("Sum"):
            if op.type == "Sum" and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                op.type = "Add"
                graph.mark_changed()
                changes += 1
        return changes


STALE = StaleIndex()
