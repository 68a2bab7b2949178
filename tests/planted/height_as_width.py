"""The height of patches is read as their width, where both are multiples of 16."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,3,H,W] x) => (float[N,C,A,B] y) {
    p = SpaceToDepth<blocksize = 16>(x)
    s = Shape<start = 2, end = 3>(p)
    f = Cast<to = 1>(s)
    y = Mul(p, f)
}"""
WRONG = (("other_extent", "s"),)
WHY = "wrong"
AFTER = {"Cast": 1, "Mul": 1, "Shape": 1, "SpaceToDepth": 1}


@rule(lambda g, x: g.Shape(x, start=2, end=3), contract=EXACT)
def other_extent(g: RewriteBuilder, x: Value) -> Value:
    """Shape(x)[2:3] => Shape(x)[3:4]"""
    return g.Shape(x, start=3, end=4)
