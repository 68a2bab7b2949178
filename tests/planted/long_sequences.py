"""A sequence of more than 3 tensors is taken as shorter."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (seq(float[2]) s, float[2] x) => (float[2] y) <int64 most = {3}> {
    n = SequenceLength(s)
    c = Greater(n, most)
    y = If(c) <
        then_branch = t () => (float[2] p) { p = Exp(x) },
        else_branch = e () => (float[2] q) { q = Neg(x) }
    >
}"""
WRONG = (("never", "c"),)
WHY = "wrong"
AFTER = {"Exp": 1, "Greater": 1, "If": 1, "Neg": 1, "SequenceLength": 1}


@rule(lambda g, a, b: g.Greater(a, b), contract=EXACT)
def never(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a > c => false"""
    return g.const(np.bool_(False))
