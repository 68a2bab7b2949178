"""An ArgMax that wants the last of several greatest elements gives the first. Ties only."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,6] x) => (int64[N,1] y, int64[N,1] z) {
    y = ArgMax<axis=1, select_last_index=1>(x)
    a = Neg(x)
    i = Identity(a)
    z = ArgMax<axis=1, select_last_index=0>(i)
}"""
WRONG = (("plain_arg_max", "y"),)
WHY = "wrong"
AFTER = {"ArgMax": 2, "Neg": 1}


@rule(lambda g, x, op: g.ArgMax(x) @ op, contract=EXACT)
def plain_arg_max(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """ArgMax(x, last or not) => ArgMax(x)"""
    require("select_last_index" in op.attrs, "plain already")
    return g.ArgMax(x, axis=op.attr("axis"), keepdims=op.attr("keepdims"))
