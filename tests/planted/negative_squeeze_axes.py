"""Two Squeezes merge; axes of the second are moved past those of the first, but negative ones stay.

Known from onnxoptimizer.
"""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,3,1,1] x, float[N,1,1,3] t) => (float[N,3] y, float[N,3] z)
    <int64[1] last = {-1}, int64[1] three = {3}, int64[1] one = {1}> {
    a = Squeeze(x, three)
    y = Squeeze(a, last)
    b = Squeeze(t, one)
    i = Identity(b)
    z = Squeeze(i, one)
}"""
WRONG = (("merge_squeezes", "y"),)
WHY = "wrong"
AFTER = {"Squeeze": 3}


@rule(lambda g, x, a, b: g.Squeeze(g.Squeeze(x, a), b), contract=EXACT)
def merge_squeezes(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """Squeeze(Squeeze(x, a), b) => Squeeze(x, a and b)"""
    axes = sorted(a.const.tolist())
    for axis in b.const.tolist():
        moved = axis
        for other in sorted(axes):
            moved += 0 <= other <= moved
        axes.append(moved)
    return g.Squeeze(x, g.const(np.array(axes, np.int64)))
