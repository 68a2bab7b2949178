"""A pass follows the producers of a value and forgets to stop."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Neg(x)
    y = Abs(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("recurses-for-ever", ""),)
WHY = "raised"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1}


@dataclass(frozen=True)
class RecursesForEver:
    """Measures how deep the graph is."""

    name: str = "recurses-for-ever"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        return max(self._depth(graph, op) for op in graph.ops())

    def _depth(self, graph: Graph, op: Op) -> int:
        return 1 + self._depth(graph, graph.producer(op.inputs[0]) or op)


RECURSES = RecursesForEver()
