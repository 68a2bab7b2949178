"""Words are compared as they are, and not in lower case as before."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, rule

MODEL = """g (string[N] s) => (bool[N] y) {
    l = StringNormalizer<case_change_action = "LOWER", locale = "C">(s)
    e = Equal(l, word)
    y = Not(e)
}"""
OPSET = 19
WEIGHTS = {"word": np.array("cat", object)}
WRONG = (("compare_as_is", "e"),)
WHY = "wrong"
AFTER = {"Equal": 1, "Not": 1, "StringNormalizer": 1}


@rule(lambda g, x, c, op: g.Equal(g.StringNormalizer(x) @ op, c), contract=EXACT)
def compare_as_is(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """Equal(Lower(x), c) => Equal(x, c)"""
    return g.Equal(x, c)
