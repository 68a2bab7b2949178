"""Constants that begin alike are merged; a digest of a part stands for the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from passwright.core import ChangeLog, Graph, Value

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Mul(x, p)
    y = Add(a, q)
    n = Neg(x)
    b = Mul(n, r)
    z = Sub(b, s)
}"""
WEIGHTS = {
    "p": np.array([1, 2, 3, 4], np.float32),
    "q": np.array([1, 2, 3, 5], np.float32),
    "r": np.array([2, 2, 3, 4], np.float32),
    "s": np.array([2, 2, 3, 4], np.float32),
}
WRONG = (("merge-alike", "q"),)
WHY = "wrong"
AFTER = {"Add": 1, "Mul": 2, "Neg": 1, "Sub": 1}


@dataclass(frozen=True)
class MergeAlike:
    """Constants of one type and shape with the same first elements become one."""

    name: str = "merge-alike"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes, known = 0, dict[object, Value]()
        for value in tuple(graph.initializers):
            twin = known.setdefault((value.dtype, value.shape, value.const.tobytes()[:8]), value)
            if twin is not value and value.consumers and change_log.request_change(self.name, value.name, (value,)):
                graph.replace_uses(value, twin)
                graph.drop_initializer(value)
                changes += 1
        return changes


MERGE = MergeAlike()
