"""A constant that only the branch of an If reads is dropped, as if nothing read it."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[2] x, bool c) => (float[2] y, float[2] z) <float[2] w = {1.0,2.0}> {
    y = If(c) <
        then_branch = t () => (float[2] p) { p = Add(x, w) },
        else_branch = e () => (float[2] q) { q = Abs(x) }
    >
    a = Identity(x)
    z = Exp(a)
}"""
WRONG = (("drops-a-captured-constant", "w"),)
WHY = "invalid"
AFTER = {"Abs": 1, "Add": 1, "Exp": 1, "If": 1}


@dataclass(frozen=True)
class DropsACapturedConstant:
    """Initializers that no op of the main graph reads go."""

    name: str = "drops-a-captured-constant"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for value in tuple(graph.initializers):
            if all(op.graph is not graph for op in value.consumers) and change_log.request_change(
                self.name, value.name, (value,)
            ):
                del graph.initializers[value]
                graph.mark_changed()
                changes += 1
        return changes


DROPS = DropsACapturedConstant()
