"""A graph input that nothing reads is removed, and with it a part of the interface.

Known from OnnxSlim.
"""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x, float[N,3] unused) => (float[N,3] y) {
    a = Identity(x)
    y = Abs(a)
}"""
WRONG = (("drops-an-input", "unused"),)
WHY = "interface"
AFTER = {"Abs": 1}


@dataclass(frozen=True)
class DropsAnInput:
    """Inputs that nothing reads go."""

    name: str = "drops-an-input"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for value in [v for v in graph.inputs if not v.consumers]:
            if change_log.request_change(self.name, value.name, (value,)):
                graph.inputs.remove(value)
                graph.declared.inputs[:] = [(v, info) for v, info in graph.declared.inputs if v is not value]
                graph.mark_changed()
                changes += 1
        return changes


DROPS = DropsAnInput()
