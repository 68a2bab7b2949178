"""A pass that asks the change log, changes, and looks again, without end."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z) {
    y = Max(x, t)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("asks-for-ever", ""),)
WHY = "endless"
AFTER = {"Exp": 1, "Max": 1}


@dataclass(frozen=True)
class AsksForEver:
    """Max(a, b) => Max(b, a)"""

    name: str = "asks-for-ever"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        (op,) = graph.ops("Max")
        while change_log.request_change(self.name, op.outputs[0].name, (op,)):
            graph.set_inputs(op, op.inputs[::-1])
            changes += 1
        return changes


ASKS = AsksForEver()
