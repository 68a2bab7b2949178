"""A pass writes into the array of a weight, in place, to round it; the model keeps the array."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    y = Mul(x, w)
    b = Identity(x)
    z = Add(b, v)
}"""
WEIGHTS = {"w": np.array([0.25, 1.5, -2.75], np.float32), "v": np.array([0.5, 1.25, 2], np.float32)}
WRONG = (("writes-into-weights", ""),)
WHY = "raised"
AFTER = {"Add": 1, "Mul": 1}


@dataclass(frozen=True)
class WritesIntoWeights:
    """Weights are rounded where they lie."""

    name: str = "writes-into-weights"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        for value in graph.initializers:
            value.const[...] = np.round(value.const)
        return 0


WRITES = WritesIntoWeights()
