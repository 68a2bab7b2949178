"""A Cast at an output goes, and with it the output's type."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (double[N,3] y, float[N,3] z) {
    a = Abs(x)
    y = Cast<to=11>(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("retypes-an-output", "y"),)
WHY = "refused"
AFTER = {"Abs": 1, "Cast": 1, "Exp": 1}


@dataclass(frozen=True)
class RetypesAnOutput:
    """Cast(x) => x"""

    name: str = "retypes-an-output"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("Cast"):
            source = op.inputs[0]
            if source is not None and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                graph.replace_value(op.outputs[0], source)
                changes += graph.prune([op])
        return changes


RETYPES = RetypesAnOutput()
