"""A pass exchanges weights for rounded ones and reports that it changed nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from passwright.core import ChangeLog, Graph, Tensor

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    y = Mul(x, w)
    b = Identity(x)
    z = Add(b, v)
}"""
WEIGHTS = {"w": np.array([0.25, 1.5, -2.75], np.float32), "v": np.array([0.5, 1.25, 2], np.float32)}
WRONG = (("rounds-weights", ""),)
WHY = "wrong"
AFTER = {"Add": 1, "Mul": 1}


@dataclass(frozen=True)
class RoundsWeights:
    """Weights are rounded, and nobody is told."""

    name: str = "rounds-weights"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        for value in graph.initializers:
            value.set_constant(Tensor.from_array(np.round(value.const)))
        return 0


ROUNDS = RoundsWeights()
