"""Two outputs keep their names and exchange their values."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Identity(x)
    y = Exp(a)
    z = Abs(a)
}"""
WRONG = (("crosses-outputs", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Exp": 1}


@dataclass(frozen=True)
class CrossesOutputs:
    """Outputs in the order of their producers' types."""

    name: str = "crosses-outputs"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        first, second = (graph.producer(v) for v in graph.outputs)
        if first is None or second is None or first.type <= second.type:
            return 0
        if not change_log.request_change(self.name, graph.outputs[0].name, (first, second)):
            return 0
        values = graph.outputs
        values[0].name, values[1].name = values[1].name, values[0].name
        graph.outputs = values[::-1]
        graph.mark_changed()
        return 1


CROSSES = CrossesOutputs()
