"""A pass feeds an op what is computed from its own output."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z) {
    a = Add(x, t)
    y = Abs(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("makes-a-cycle", "a"),)
WHY = "invalid"
AFTER = {"Abs": 1, "Add": 1, "Exp": 1}


@dataclass(frozen=True)
class MakesACycle:
    """Takes the second input of an Add from the wrong end."""

    name: str = "makes-a-cycle"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("Add"):
            last = graph.outputs[0]
            if op.inputs[1] is not last and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                graph.set_inputs(op, [op.inputs[0], last])
                changes += 1
        return changes


CYCLE = MakesACycle()
