"""A MaxPool that rounds its extent up is made to round down. Wrong only for odd extents."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[1,2,H,W] x, float[1,2,4,4] t) => (float[1,2,A,B] y, float[1,2,2,2] z) {
    y = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x)
    a = Identity(t)
    z = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(a)
}"""
WRONG = (("round_down", "y"),)
WHY = "wrong"
AFTER = {"MaxPool": 2}


@rule(lambda g, x, pool: g.MaxPool(x) @ pool, contract=EXACT)
def round_down(g: RewriteBuilder, x: Value, pool: Op) -> Value:
    """MaxPool(x), rounded up => MaxPool(x), rounded down"""
    require(pool.attr("ceil_mode"), "rounded down already")
    return g.MaxPool(x, **{**pool.attrs, "ceil_mode": 0})
