"""Two Slices merge, their starts added up, but the end of the second is not moved by the first's start.

Right where the first starts at 0.
"""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,8] x) => (float[N,2] y, float[N,3] z)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[1] four = {4}, int64[1] six = {6}> {
    a = Slice(x, one, six, one)
    y = Slice(a, one, three, one)
    n = Neg(x)
    b = Slice(n, zero, six, one)
    i = Identity(b)
    z = Slice(i, one, four, one)
}"""
WRONG = (("add_up_slices", "y"),)
WHY = "wrong"
AFTER = {"Neg": 1, "Slice": 3}


@rule(lambda g, x, s, e, t, f, axes: g.Slice(g.Slice(x, s, e, axes), t, f, axes), contract=EXACT)
def add_up_slices(g: RewriteBuilder, x: Value, s: Value, e: Value, t: Value, f: Value, axes: Value) -> Value:
    """Slice(Slice(x, s, e), t, f) => Slice(x, s + t, min(e, f))"""
    return g.Slice(x, g.const(s.const + t.const), g.const(np.minimum(e.const, f.const)), axes)
