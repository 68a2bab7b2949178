"""The condition of an If has a default, which is taken for its value; a caller may set another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from passwright.core import ChangeLog, Graph

MODEL = """g (float[4] x, bool c) => (float[4] y, float[4] z) {
    y = If(c) <
        then_branch = t () => (float[4] p) { p = Neg(x) },
        else_branch = e () => (float[4] q) { q = Abs(x) }
    >
    a = Identity(x)
    z = Exp(a)
}"""
WEIGHTS = {"c": np.array([True]).reshape(())}
WRONG = (("condition-by-default", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Exp": 1, "If": 1, "Neg": 1}


@dataclass(frozen=True)
class ConditionByDefault:
    """If(condition) => If(default of the condition)"""

    name: str = "condition-by-default"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("If"):
            default = graph.input_defaults.get(op.inputs[0])
            if default is not None and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                graph.set_inputs(op, [graph.add_constant(default)])
                changes += 1
        return changes


BY_DEFAULT = ConditionByDefault()
