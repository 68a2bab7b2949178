"""An initializer that a caller may override is made a constant, and is an input no more.

Known from onnxsim, OnnxSlim and graphsurgeon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x, float[3] w) => (float[N,3] y, float[N,3] z) {
    y = Mul(x, w)
    a = Identity(x)
    z = Abs(a)
}"""
WEIGHTS = {"w": np.array([1, 2, 3], np.float32)}
WRONG = (("drops-a-default", "w"),)
WHY = "interface"
AFTER = {"Abs": 1, "Mul": 1}


@dataclass(frozen=True)
class DropsADefault:
    """Inputs with a default become initializers."""

    name: str = "drops-a-default"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for value in tuple(graph.input_defaults):
            if change_log.request_change(self.name, value.name, (value,)):
                graph.inputs.remove(value)
                graph.declared.inputs[:] = [(v, info) for v, info in graph.declared.inputs if v is not value]
                value.set_constant(graph.input_defaults.pop(value))
                graph.initializers[value] = None
                graph.mark_changed()
                changes += 1
        return changes


DROPS = DropsADefault()
