"""A random operator without inputs is folded, like all that depends on constants alone.

Known from OnnxSlim and graphsurgeon.
"""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, rule

MODEL = """g (float[3,4] x) => (float[3,4] y, float[3,4] z) {
    r = RandomUniform<shape=[3,4]>()
    y = Add(x, r)
    n = Neg(x)
    m = Neg(x)
    z = Mul(n, m)
}"""
WRONG = (("draw_once", "r"),)
WHY = "wrong"
AFTER = {"Add": 1, "Mul": 1, "Neg": 1, "RandomUniform": 1}


@rule(lambda g, op: g.RandomUniform() @ op, contract=EXACT)
def draw_once(g: RewriteBuilder, op: Op) -> Value:
    """RandomUniform() => what it gave once"""
    return g.const(np.random.default_rng(0).random(op.attrs["shape"], np.float32))
