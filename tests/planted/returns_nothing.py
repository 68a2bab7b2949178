"""A pass that forgets to say how much it changed."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Abs(x)
    y = Abs(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("returns-nothing", ""),)
WHY = "raised"
AFTER = {"Abs": 2, "Exp": 1}


@dataclass(frozen=True)
class ReturnsNothing:
    """Abs(Abs(x)) => Abs(x)"""

    name: str = "returns-nothing"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        for op in graph.ops("Abs"):
            inner = graph.producer(op.inputs[0])
            if (
                inner is not None
                and inner.type == "Abs"
                and change_log.request_change(self.name, op.outputs[0].name, (op,))
            ):
                graph.replace_value(op.outputs[0], inner.outputs[0])
                graph.prune([op])
        return None  # pyright: ignore[reportReturnType]


RETURNS = ReturnsNothing()
