"""An Expand goes where its shape ends like that of its input, though a leading dim is stretched.

Right where nothing is stretched.
"""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[1,3] x, float[2,3] t) => (float[2,3] y, float[2,3] z) <int64[2] s = {2,3}> {
    a = Neg(x)
    y = Expand(a, s)
    i = Identity(t)
    z = Expand(i, s)
}"""
WRONG = (("drop_expand", "y"),)
WHY = "wrong"
AFTER = {"Expand": 1, "Identity": 1, "Neg": 1}


@rule(lambda g, x, s: g.Expand(x, s), contract=EXACT)
def drop_expand(g: RewriteBuilder, x: Value, s: Value) -> Value:
    """Expand(x, s) => x"""
    require(list(x.shape[1:]) == s.const.tolist()[1:], "it stretches x")
    return x
