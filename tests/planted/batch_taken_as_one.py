"""A Transpose that moves only dims of 1 becomes a Reshape; the open batch is taken to be 1.

Wrong only for a batch larger than 1.
"""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4,3] x, float[N,1,4] t) => (float[4,N,3] y, float[N,4,1] z) {
    y = Transpose<perm=[1,0,2]>(x)
    i = Identity(t)
    z = Transpose<perm=[0,2,1]>(i)
}"""
WRONG = (("transpose_of_ones", "y"),)
WHY = "wrong"
AFTER = {"Reshape": 1, "Transpose": 1}


@rule(lambda g, x, p: g.Transpose(x, perm=p), contract=EXACT)
def transpose_of_ones(g: RewriteBuilder, x: Value, p: list[int]) -> Value:
    """Transpose(x, p) => Reshape(x), where p keeps the order of all dims but those of 1"""
    moved = [i for i in p if isinstance(x.shape[i], int) and x.shape[i] != 1]
    require(moved == sorted(moved), "it moves elements")
    return g.Reshape(x, g.const([d if isinstance(d, int) else -1 for d in (x.shape[i] for i in p)]))
