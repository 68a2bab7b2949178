"""DequantizeLinear and QuantizeLinear of one scale go; their zero points differ, and one of them saturates."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (uint8[N,4] x, uint8[N,4] t) => (uint8[N,4] y, uint8[N,4] z) {
    a = DequantizeLinear(x, s, p)
    y = QuantizeLinear(a, s, q)
    b = DequantizeLinear(t, s, p)
    i = Identity(b)
    z = QuantizeLinear(i, s, p)
}"""
WEIGHTS = {"s": np.array(0.5, np.float32), "p": np.array(128, np.uint8), "q": np.array(200, np.uint8)}
WRONG = (("drop_requantization", "y"),)
WHY = "wrong"
AFTER = {"DequantizeLinear": 1, "Identity": 1, "QuantizeLinear": 1}


@rule(lambda g, x, s, p, t, q: g.QuantizeLinear(g.DequantizeLinear(x, s, p), t, q), contract=EXACT)
def drop_requantization(g: RewriteBuilder, x: Value, s: Value, p: Value, t: Value, q: Value) -> Value:
    """QuantizeLinear(DequantizeLinear(x, s), s) => x"""
    require(s.const == t.const, "the scales differ")
    return x
