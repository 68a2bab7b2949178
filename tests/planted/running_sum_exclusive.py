"""A CumSum along an axis of one element goes; an exclusive one gives 0 there."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,1] x) => (float[N,1] y, float[N,1] z) <int64 axis = {1}> {
    y = CumSum<exclusive=1>(x, axis)
    n = Neg(x)
    i = CumSum<reverse=1>(n, axis)
    z = Abs(i)
}"""
WRONG = (("sum_of_one", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "CumSum": 1, "Neg": 1}


@rule(lambda g, x, axis, op: g.CumSum(x, axis) @ op, contract=EXACT)
def sum_of_one(g: RewriteBuilder, x: Value, axis: Value, op: Op) -> Value:
    """CumSum(x) => x, along an axis of one element"""
    require(x.shape[axis.const.item()] == 1, "more than one element")
    return x
