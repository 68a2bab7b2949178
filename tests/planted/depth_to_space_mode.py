"""The mode of a DepthToSpace is forgotten. Right where one channel is left."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,8,2,2] x, float[N,4,2,2] t) => (float[N,2,4,4] y, float[N,1,4,4] z) {
    y = DepthToSpace<blocksize=2, mode="CRD">(x)
    a = Identity(t)
    z = DepthToSpace<blocksize=2, mode="CRD">(a)
}"""
WRONG = (("plain_depth_to_space", "y"),)
WHY = "wrong"
AFTER = {"DepthToSpace": 2}


@rule(lambda g, x, op: g.DepthToSpace(x) @ op, contract=EXACT)
def plain_depth_to_space(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """DepthToSpace(x, mode) => DepthToSpace(x)"""
    require(op.attr("mode") == "CRD", "plain already")
    return g.DepthToSpace(x, blocksize=op.attr("blocksize"))
