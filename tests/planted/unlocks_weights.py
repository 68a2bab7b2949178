"""A pass tries to make the read-only array of a weight writable, to round it where it lies."""

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
WRONG = (("unlocks-weights", ""),)
WHY = "raised"
AFTER = {"Add": 1, "Mul": 1}


@dataclass(frozen=True)
class UnlocksWeights:
    """Weights are rounded where they lie."""

    name: str = "unlocks-weights"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        changes = 0
        for value in graph.initializers:
            array = value.const
            if (array != np.round(array)).any():
                array.flags.writeable = True
                array[...] = np.round(array)
                changes += 1
        return changes


UNLOCKS = UnlocksWeights()
