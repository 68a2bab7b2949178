"""Relu raises the lower end of a Clip to 0 and leaves the upper end where it is, though it may be below 0.

Known from onnxscript.
"""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z)
    <float low = {-3.0}, float below = {-1.0}, float above = {2.0}> {
    a = Clip(x, low, below)
    y = Relu(a)
    b = Clip(x, low, above)
    i = Identity(b)
    z = Relu(i)
}"""
WRONG = (("relu_of_clip", "y"),)
WHY = "wrong"
AFTER = {"Clip": 2, "Relu": 1}


@rule(lambda g, x, a, b: g.Relu(g.Clip(x, a, b)), contract=EXACT)
def relu_of_clip(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """Relu(Clip(x, a, b)) => Clip(x, max(a, 0), b)"""
    return g.Clip(x, g.const(np.maximum(a.const, 0).astype(a.const.dtype)), b)
