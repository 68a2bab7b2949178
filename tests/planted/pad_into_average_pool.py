"""A Pad becomes the pads of an AveragePool, which does not count them. Right where the pool says that it does."""

from __future__ import annotations

from passwright.core import Op, RewriteBuilder, Value, rule

MODEL = """g (float[N,2,4,4] x) => (float[N,2,4,4] y, float[N,2,4,4] z) <int64[8] p = {0,0,1,1,0,0,1,1}> {
    a = Pad(x, p)
    y = AveragePool<kernel_shape=[3,3]>(a)
    n = Neg(x)
    b = Pad(n, p)
    i = Identity(b)
    z = AveragePool<kernel_shape=[3,3], count_include_pad=1>(i)
}"""
WRONG = (("pad_into_average_pool", "y"),)
WHY = "wrong"
AFTER = {"AveragePool": 2, "Neg": 1, "Pad": 1}


@rule(lambda g, x, p, pool: g.AveragePool(g.Pad(x, p)) @ pool)
def pad_into_average_pool(g: RewriteBuilder, x: Value, p: Value, pool: Op) -> Value:
    """AveragePool(Pad(x, p)) => AveragePool(x), pads"""
    pads = p.const.tolist()
    return g.AveragePool(x, **{**pool.attrs, "pads": pads[2:4] + pads[6:]})
