"""A factor behind a Conv goes into its weight, in place; the weight has another reader, which nobody asked.

Right where the Conv is the only one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from passwright.core import ChangeLog, Graph, Tensor

MODEL = """g (float[N,2,4,4] x) => (float[N,3,4,4] y, float[N,3,4,4] s, float[N,3,4,4] z) <float two = {2.0}> {
    a = Conv(x, w)
    y = Mul(a, two)
    n = Neg(x)
    s = Conv(n, w)
    i = Identity(n)
    b = Conv(i, v)
    z = Mul(b, two)
}"""
WEIGHTS = {
    "w": np.linspace(-0.1, 0.2, 6, dtype=np.float32).reshape(3, 2, 1, 1),
    "v": np.linspace(0.2, -0.2, 6, dtype=np.float32).reshape(3, 2, 1, 1),
}
WRONG = (("scale-conv", "y"),)
WHY = "wrong"
AFTER = {"Conv": 3, "Mul": 1, "Neg": 1}


@dataclass(frozen=True)
class ScaleConv:
    """Conv(x, w) * c => Conv(x, w * c)"""

    name: str = "scale-conv"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for mul in graph.ops("Mul"):
            product, factor = mul.inputs
            conv = graph.producer(product)
            if conv is None or conv.type != "Conv" or product is None or factor is None or len(product.consumers) > 1:
                continue
            weight = conv.inputs[1]
            if weight is None or not factor.is_const or factor.const.size != 1:
                continue
            if change_log.request_change(self.name, mul.outputs[0].name, (mul,), exact=False):
                weight.set_constant(Tensor.from_array(weight.const * factor.const))
                graph.replace_value(mul.outputs[0], product)
                changes += graph.prune([mul])
        return changes


SCALE = ScaleConv()
