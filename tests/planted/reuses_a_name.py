"""A pass that asks the change log gives a new value a name that another one has."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op, Value

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Neg(x)
    y = Abs(a)
    b = Identity(a)
    z = Exp(b)
}"""
WRONG = (("reuses-a-name", "y"),)
WHY = "invalid"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1}


@dataclass(frozen=True)
class ReusesAName:
    """Abs(x) => Max(x, -x)"""

    name: str = "reuses-a-name"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("Abs"):
            if change_log.request_change(self.name, op.outputs[0].name, (op,)):
                minus = Value("a")
                graph.add_op(Op("Neg", "", "", {}, None), op.inputs, [minus])
                both = graph.add_op(Op("Max", "", "", {}, None), [op.inputs[0], minus], [Value(graph.fresh_name("m"))])
                graph.replace_value(op.outputs[0], both.outputs[0])
                changes += graph.prune([op])
        return changes


REUSES = ReusesAName()
