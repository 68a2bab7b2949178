"""The exponents of a Softmax are no longer computed in single precision. Those of numbers above 11 overflow."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float16[N,16] x) => (float16[N,16] y, float16[N,16] z) {
    f = Cast<to=1>(x)
    e = Exp(f)
    s = ReduceSum(e, last)
    q = Div(e, s)
    y = Cast<to=10>(q)
    i = Identity(x)
    z = Neg(i)
}"""
WEIGHTS = {"last": np.array([-1])}
WRONG = (("stay_in_half", "y"),)
WHY = "wrong"
AFTER = {"Cast": 2, "Div": 1, "Exp": 1, "Neg": 1, "ReduceSum": 1}


@rule(
    lambda g, x, axes: g.Cast(g.Div(g.Exp(g.Cast(x, to=1)), g.ReduceSum(g.Exp(g.Cast(x, to=1)), g.const(axes))), to=10),
    allow_other_uses=True,
)
def stay_in_half(g: RewriteBuilder, x: Value, axes: Value) -> Value:
    """half(Exp(float(x)) / sum(Exp(float(x)))) => Exp(x) / sum(Exp(x))"""
    e = g.Exp(x)
    return g.Div(e, g.ReduceSum(e, axes))
