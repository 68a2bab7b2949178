"""A pass writes to `Op.inputs` itself, so that values do not know their readers any more; it asks before."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    a = Neg(x)
    y = Abs(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("dangling-edge", "y"),)
WHY = "invalid"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1}


@dataclass(frozen=True)
class DanglingEdge:
    """Abs(-x) => Abs(x)"""

    name: str = "dangling-edge"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("Abs"):
            inner = graph.producer(op.inputs[0])
            if (
                inner is None
                or inner.type != "Neg"
                or not change_log.request_change(self.name, op.outputs[0].name, (op,))
            ):
                continue
            op.inputs = inner.inputs
            graph.mark_changed()
            changes += 1
        return changes


DANGLING = DanglingEdge()
