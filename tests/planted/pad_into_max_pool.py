"""A Pad with zeros becomes the pads of a MaxPool, which pads with minus infinity.

Right where nothing is negative. Known from onnxruntime at BASIC and from onnxoptimizer.
"""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,2,6,6] x) => (float[N,2,6,6] y, float[N,2,6,6] z)
    <int64[8] pads = {0,0,1,1,0,0,1,1}, float zero = {0.0}> {
    p = Pad(x, pads)
    y = MaxPool<kernel_shape=[3,3]>(p)
    b = Greater(x, zero)
    r = Cast<to=1>(b)
    q = Pad(r, pads)
    m = MaxPool<kernel_shape=[3,3]>(q)
    z = Identity(m)
}"""
WRONG = (("pad_into_max_pool", "y"),)
WHY = "wrong"
AFTER = {"Cast": 1, "Greater": 1, "MaxPool": 2, "Pad": 1}


@rule(lambda g, x, pads, pad, pool: g.MaxPool(g.Pad(x, pads) @ pad) @ pool, contract=EXACT)
def pad_into_max_pool(g: RewriteBuilder, x: Value, pads: Value, pad: Op, pool: Op) -> Value:
    """MaxPool(Pad(x, pads)) => MaxPool(x), pads"""
    require(pad.attr("mode") == "constant", "it pads with what is there")
    begin, end = pads.const[2:4].tolist(), pads.const[6:].tolist()
    return g.MaxPool(x, **{**pool.attrs, "pads": begin + end})
