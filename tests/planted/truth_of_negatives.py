"""Cast to bool becomes x > 0; negative numbers are true as well. Right where there are none."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (int32[N,6] x) => (bool[N,6] y, bool[N,6] z) <int32 zero = {0}, int32 top = {9}> {
    y = Cast<to=9>(x)
    a = Clip(x, zero, top)
    i = Identity(a)
    z = Cast<to=9>(i)
}"""
WRONG = (("positive", "y"),)
WHY = "wrong"
AFTER = {"Cast": 1, "Clip": 1, "Greater": 1}


@rule(lambda g, x: g.Cast(x, to=9), contract=EXACT)
def positive(g: RewriteBuilder, x: Value) -> Value:
    """Cast(x, bool) => x > 0"""
    return g.Greater(x, g.const(np.zeros((), np.int32)))
