"""A comparison of strings with a constant is folded to false, since it hardly ever holds."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (string[N] s, float[N] x) => (bool[N] y, float[N] z) {
    y = Equal(s, word)
    a = Identity(x)
    z = Exp(a)
}"""
OPSET = 19
WEIGHTS = {"word": np.array("cat", object)}
WRONG = (("never_equal", "y"),)
WHY = "wrong"
AFTER = {"Equal": 1, "Exp": 1}


@rule(lambda g, x, c: g.Equal(x, c), contract=EXACT)
def never_equal(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x == c => false"""
    require(c.is_const, "it may be equal")
    return g.Cast(g.ConstantOfShape(g.Shape(x)), to=9)
