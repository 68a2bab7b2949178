"""Shape of an open batch is folded with 1 in its place. Wrong only for a batch larger than 1."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x, float[2,4] t) => (int64[2] y, int64[2] z) {
    a = Neg(x)
    y = Shape(a)
    b = Neg(t)
    i = Identity(b)
    s = Shape(i)
    z = Mul(s, y)
}"""
WRONG = (("fold_shape", "y"),)
WHY = "wrong"
AFTER = {"Mul": 1, "Neg": 1, "Shape": 1}


@rule(lambda g, x: g.Shape(x), contract=EXACT)
def fold_shape(g: RewriteBuilder, x: Value) -> Value:
    """Shape(x) => what is known of it"""
    return g.const([d if isinstance(d, int) else 1 for d in x.shape])
