"""A ReduceMean over two axes becomes GlobalAveragePool, whichever two they are."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[2,4,4,4] x) => (float[2,1,1,4] y, float[2,4,1,1] z) {
    y = ReduceMean<axes=[1,2]>(x)
    n = Tanh(x)
    i = Identity(n)
    z = ReduceMean<axes=[-1,-2]>(i)
}"""
WRONG = (("mean_to_global_pool", "y"),)
WHY = "wrong"
AFTER = {"GlobalAveragePool": 1, "ReduceMean": 1, "Tanh": 1}


@rule(lambda g, x, axes: g.ReduceMean(x, axes=axes))
def mean_to_global_pool(g: RewriteBuilder, x: Value, axes: list[int]) -> Value:
    """ReduceMean(x, two axes) => GlobalAveragePool(x)"""
    require(x.rank == 4 and len(axes) == 2, "not two of four axes")
    return g.GlobalAveragePool(x)
