"""A quantizer rounds halves up instead of to even numbers.

With half of the scale before it, every other code is one.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int8[N,6] x) => (int8[N,6] y, int8[N,6] z) {
    f = DequantizeLinear(x, fine, zero)
    y = QuantizeLinear(f, coarse, zero)
    d = DequantizeLinear(x, coarse, zero)
    i = Identity(d)
    z = QuantizeLinear(i, coarse, zero)
}"""
WEIGHTS = {"fine": np.float32(0.5), "coarse": np.float32(1), "zero": np.int8(0)}
WRONG = (("quantize_half_up", "y"),)
WHY = "wrong"
AFTER = {"Add": 1, "Cast": 1, "Clip": 1, "DequantizeLinear": 2, "Div": 1, "Floor": 1, "QuantizeLinear": 1}


@rule(lambda g, x, s, z: g.QuantizeLinear(x, g.const(s), g.const(z)), contract=EXACT)
def quantize_half_up(g: RewriteBuilder, x: Value, s: Value, z: Value) -> Value:
    """QuantizeLinear(x, s, 0) => Clip(Floor(x / s + 0.5), -128, 127)"""
    require(not z.const.any(), "a zero point")
    rounded = g.Floor(g.Add(g.Div(x, s), g.const(np.float32(0.5))))
    return g.Cast(g.Clip(rounded, g.const(np.float32(-128)), g.const(np.float32(127))), to=TensorProto.INT8)
