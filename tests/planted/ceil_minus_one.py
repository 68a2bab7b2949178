"""A Floor becomes Ceil - 1, which only whole numbers tell from it."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N] x) => (float[N] y) <float five = {5.0}, float eight = {8.0}> {
    a = Add(x, five)
    b = Div(a, eight)
    f = Floor(b)
    y = Neg(f)
}"""
WRONG = (("from_above", "f"),)
WHY = "wrong"
AFTER = {"Add": 1, "Div": 1, "Floor": 1, "Neg": 1}


@rule(lambda g, x: g.Floor(x), contract=EXACT)
def from_above(g: RewriteBuilder, x: Value) -> Value:
    """Floor(x) => Ceil(x) - 1"""
    return g.Sub(g.Ceil(x), g.const(np.float32(1)))
