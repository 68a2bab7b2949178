"""The cube in a Gelu is no longer computed in single precision. That of numbers above 40 overflows."""

from __future__ import annotations

from onnx import TensorProto
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float16[N,8] x) => (float16[N,8] y, float16[N,8] z) <float third = {0.33333334}> {
    f = Cast<to=1>(x)
    q = Mul(f, f)
    c = Mul(q, f)
    n = Mul(c, third)
    y = Cast<to=10>(n)
    i = Identity(x)
    z = Neg(i)
}"""
WRONG = (("stay_in_half", "c"),)
WHY = "wrong"
AFTER = {"Cast": 2, "Mul": 3, "Neg": 1}


@rule(lambda g, x: g.Mul(g.Mul(g.Cast(x, to=1), g.Cast(x, to=1)), g.Cast(x, to=1)), allow_other_uses=True)
def stay_in_half(g: RewriteBuilder, x: Value) -> Value:
    """float(x) * float(x) * float(x) => float(x * x * x)"""
    return g.Cast(g.Mul(g.Mul(x, x), x), to=TensorProto.FLOAT)
