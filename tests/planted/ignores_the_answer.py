"""A pass asks the change log and goes ahead whatever it says."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    a = Abs(x)
    y = Neg(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("ignores-the-answer", ""),)
WHY = "wrong"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1}


@dataclass(frozen=True)
class IgnoresTheAnswer:
    """Abs(x) => x"""

    name: str = "ignores-the-answer"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("Abs"):
            source = op.inputs[0]
            assert source is not None
            change_log.request_change(self.name, op.outputs[0].name, (op,))
            graph.replace_value(op.outputs[0], source)
            changes += graph.prune([op])
        return changes


IGNORES = IgnoresTheAnswer()
