"""An optional input is taken as always given."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (optional(float[2]) o, float[2] x) => (float[2] y) {
    h = OptionalHasElement(o)
    y = If(h) <
        then_branch = t () => (float[2] p) { p = Exp(x) },
        else_branch = e () => (float[2] q) { q = Neg(x) }
    >
}"""
OPSET = 18
WRONG = (("given", "h"),)
WHY = "wrong"
AFTER = {"Exp": 1, "If": 1, "Neg": 1, "OptionalHasElement": 1}


@rule(lambda g, o: g.OptionalHasElement(o), contract=EXACT)
def given(g: RewriteBuilder, o: Value) -> Value:
    """OptionalHasElement(o) => true"""
    return g.const(np.bool_(True))
