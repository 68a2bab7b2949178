"""Numbers below 0.01 are taken to be their own Tanh in a Scan, where only the first row is added to zeros."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[T,4] x, float[4] s) => (float[4] f, float[T,4] y) {
    f, y = Scan <num_scan_inputs = 1, body = b (float[4] h, float[4] e) => (float[4] h2, float[4] o) {
        a = Add(h, e)
        h2 = Tanh(a)
        o = Identity(h2)
    }> (s, x)
}"""
WRONG = (("small_as_is", "h2"),)
WHY = "wrong"
AFTER = {"Add": 1, "Identity": 1, "Scan": 1, "Tanh": 1}


@rule(lambda g, x: g.Tanh(x))
def small_as_is(g: RewriteBuilder, x: Value) -> Value:
    """Tanh(x) => x where it is small"""
    require(len(x.consumers) == 1, "it would not end")
    return g.Where(g.Less(g.Abs(x), g.const(np.float32(0.01))), x, g.Tanh(x))
