"""Squares of halves are no longer computed in single precision. Those of numbers above 255 overflow."""

from __future__ import annotations

from onnx import TensorProto
from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float16[N,16] x) => (float16[N,1] y, float16[N,1] z) {
    f = Cast<to=1>(x)
    q = Mul(f, f)
    m = ReduceMean<axes=[-1]>(q)
    y = Cast<to=10>(m)
    i = Identity(x)
    z = ReduceMax<axes=[-1]>(i)
}"""
WRONG = (("stay_in_half", "y"),)
WHY = "wrong"
AFTER = {"Cast": 2, "Mul": 1, "ReduceMax": 1, "ReduceMean": 1}


@rule(
    lambda g, x: g.Cast(g.ReduceMean(g.Mul(g.Cast(x, to=1), g.Cast(x, to=1)), axes=[-1]), to=10), allow_other_uses=True
)
def stay_in_half(g: RewriteBuilder, x: Value) -> Value:
    """half(mean(float(x) * float(x))) => mean(x * x)"""
    require(x.dtype == TensorProto.FLOAT16, "not of halves")
    return g.ReduceMean(g.Mul(x, x), axes=[-1])
