"""Two Clips merge by intersecting their ranges, which may not meet.

Known from onnxscript.
"""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z)
    <float zero = {0.0}, float one = {1.0}, float two = {2.0}, float three = {3.0}> {
    a = Clip(x, zero, one)
    y = Clip(a, two, three)
    b = Clip(x, zero, two)
    i = Identity(b)
    z = Clip(i, one, three)
}"""
WRONG = (("merge_clips", "y"),)
WHY = "wrong"
AFTER = {"Clip": 3}


@rule(lambda g, x, a, b, c, d: g.Clip(g.Clip(x, a, b), c, d), contract=EXACT)
def merge_clips(g: RewriteBuilder, x: Value, a: Value, b: Value, c: Value, d: Value) -> Value:
    """Clip(Clip(x, a, b), c, d) => Clip(x, max(a, c), min(b, d))"""
    return g.Clip(x, g.const(np.maximum(a.const, c.const)), g.const(np.minimum(b.const, d.const)))
