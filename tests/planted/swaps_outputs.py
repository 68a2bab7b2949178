"""Outputs are sorted by name. Callers who count them get another one."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] z, float[N,3] y) {
    a = Identity(x)
    y = Abs(a)
    z = Neg(a)
}"""
WRONG = (("swaps-outputs", "z"),)
WHY = "interface"
AFTER = {"Abs": 1, "Neg": 1}


@dataclass(frozen=True)
class SwapsOutputs:
    """Outputs in the order of their names."""

    name: str = "swaps-outputs"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        ordered = sorted(graph.outputs, key=lambda v: v.name)
        if ordered == list(graph.outputs) or not change_log.request_change(self.name, graph.outputs[0].name):
            return 0
        graph.outputs = ordered
        graph.declared.outputs.sort(key=lambda info: onnx.ValueInfoProto.FromString(info).name)
        graph.mark_changed()
        return 1


SWAPS = SwapsOutputs()
