"""A sine of doubles is computed in single precision; where there is no value stands -1e300."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (double[N,4] x, bool[N,1] m) => (double[N,4] y, float[N,4] z) {
    a = Sin(x)
    y = Where(m, a, missing)
    f = Cast<to=1>(x)
    i = Identity(f)
    z = Sin(i)
}"""
WEIGHTS = {"missing": np.float64(-1e300)}
WRONG = (("sine_in_single", "a"),)
WHY = "wrong"
AFTER = {"Cast": 1, "Sin": 2, "Where": 1}


@rule(lambda g, x: g.Sin(x))
def sine_in_single(g: RewriteBuilder, x: Value) -> Value:
    """Sin(x) => double(Sin(float(x)))"""
    require(x.dtype == TensorProto.DOUBLE, "not of doubles")
    return g.Cast(g.Sin(g.Cast(x, to=TensorProto.FLOAT)), to=TensorProto.DOUBLE)
