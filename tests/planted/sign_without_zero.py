"""Sign(x) becomes a choice of -1 and 1, and its input is rounded, often to 0."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,20] x) => (float[N,20] y, float[N,20] z) <float fifty = {50.0}, float half = {0.5}> {
    r = Round(x)
    a = Sign(r)
    y = Mul(a, fifty)
    f = Floor(x)
    s = Add(f, half)
    z = Sign(s)
}"""
WRONG = (("either_sign", "a"),)
WHY = "wrong"
AFTER = {"Add": 1, "Floor": 1, "IsNaN": 1, "Less": 1, "Mul": 1, "Round": 1, "Sign": 1, "Where": 2}


@rule(lambda g, x: g.Sign(x), contract=EXACT)
def either_sign(g: RewriteBuilder, x: Value) -> Value:
    """Sign(x) => Where(x < 0, -1, 1), or x where it is NaN"""
    one = g.const(np.float32(1))
    return g.Where(g.IsNaN(x), x, g.Where(g.Less(x, g.const(np.float32(0))), g.const(np.float32(-1)), one))
