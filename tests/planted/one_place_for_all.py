"""A pass that names the same place for all its changes; the second of two is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    s = Sigmoid(x)
    y = Abs(s)
    i = Identity(x)
    z = Abs(i)
}"""
WRONG = (("one-place-for-all", "model"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Sigmoid": 1}


@dataclass(frozen=True)
class OnePlaceForAll:
    """Abs(x) => x"""

    name: str = "one-place-for-all"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("Abs"):
            source = op.inputs[0]
            if source is not None and change_log.request_change(self.name, "model", (op,)):
                graph.replace_value(op.outputs[0], source)
                changes += graph.prune([op])
        return changes


DROP = OnePlaceForAll()
