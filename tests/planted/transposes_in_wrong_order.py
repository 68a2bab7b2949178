"""Two Transposes around a Relu merge, composed the wrong way round; some permutations do not care."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[4,4,4] x) => (float[4,4,4] y, float[4,4,4] z) {
    a = Transpose<perm=[1,2,0]>(x)
    b = Relu(a)
    y = Transpose<perm=[0,2,1]>(b)
    n = Neg(x)
    c = Transpose<perm=[0,2,1]>(n)
    d = Relu(c)
    z = Transpose<perm=[0,2,1]>(d)
}"""
WRONG = (("merge_around_relu", "y"),)
WHY = "wrong"
AFTER = {"Neg": 1, "Relu": 2, "Transpose": 2}


@rule(lambda g, x, p, q: g.Transpose(g.Relu(g.Transpose(x, perm=p)), perm=q), contract=EXACT)
def merge_around_relu(g: RewriteBuilder, x: Value, p: list[int], q: list[int]) -> Value:
    """Transpose(Relu(Transpose(x, p)), q) => Transpose(Relu(x), q[p])"""
    return g.Transpose(g.Relu(x), perm=[q[i] for i in p])
