"""The opset is raised, and no op is rewritten for it. Opset 18 takes the axes of ReduceMean as an input."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,1] y, float[N,3] z) {
    y = ReduceMean<axes=[1]>(x)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("raises-the-opset", ""),)
WHY = "interface"
AFTER = {"Exp": 1, "ReduceMean": 1}


@dataclass(frozen=True)
class RaisesTheOpset:
    """Opset 18."""

    name: str = "raises-the-opset"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        if graph.opsets[""] == 18:
            return 0
        graph.opsets[""] = 18
        graph.mark_changed()
        return 1


OPSET_18 = RaisesTheOpset()
