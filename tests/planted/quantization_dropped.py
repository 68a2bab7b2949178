"""A QuantizeLinear and its DequantizeLinear go, and with them rounding and saturation. Right for what was quantized."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x, uint8[N,4] t) => (float[N,4] y, float[N,4] z) {
    a = QuantizeLinear(x, s, p)
    y = DequantizeLinear(a, s, p)
    b = DequantizeLinear(t, s, p)
    c = QuantizeLinear(b, s, p)
    i = Identity(c)
    z = DequantizeLinear(i, s, p)
}"""
WEIGHTS = {"s": np.array(0.5, np.float32), "p": np.array(128, np.uint8)}
WRONG = (("drop_quantization", "y"),)
WHY = "wrong"
AFTER = {"DequantizeLinear": 2, "QuantizeLinear": 1}


@rule(lambda g, x, s, p: g.DequantizeLinear(g.QuantizeLinear(x, s, p), s, p))
def drop_quantization(g: RewriteBuilder, x: Value, s: Value, p: Value) -> Value:
    """DequantizeLinear(QuantizeLinear(x)) => x"""
    return x
