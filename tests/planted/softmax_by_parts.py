"""Exp(x) / ReduceSum(Exp(x)) becomes Softmax, at an opset where Softmax flattens all axes from the given one on.

Right on the last axis.
"""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[N,3,4] x) => (float[N,3,4] y, float[N,3,4] z) {
    t = Tanh(x)
    e = Exp(t)
    s = ReduceSum<axes=[1]>(e)
    y = Div(e, s)
    n = Neg(t)
    f = Exp(n)
    u = ReduceSum<axes=[2]>(f)
    z = Div(f, u)
}"""
OPSET = 11
WRONG = (("softmax_by_parts", "y"),)
WHY = "wrong"
AFTER = {"Div": 1, "Exp": 1, "Neg": 1, "ReduceSum": 1, "Softmax": 1, "Tanh": 1}


@rule(lambda g, x, axes: g.Div(g.Exp(x), g.ReduceSum(g.Exp(x), axes=axes)))
def softmax_by_parts(g: RewriteBuilder, x: Value, axes: list[int]) -> Value:
    """Exp(x) / ReduceSum(Exp(x), axes) => Softmax(x, axis)"""
    require(len(axes) == 1, "Softmax has one axis")
    return g.Softmax(x, axis=axes[0])
