"""The second of two Reshapes stays alone, but its 0 then copies an extent of another shape.

Known from onnxoptimizer.
"""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,2,6] x) => (float[N,3,2,2] y, float[N,12] z)
    <int64[3] s = {-1,3,4}, int64[4] zeros = {0,0,2,2}, int64[2] flat = {-1,12}> {
    a = Reshape(x, s)
    y = Reshape(a, zeros)
    n = Neg(x)
    b = Reshape(n, s)
    i = Identity(b)
    z = Reshape(i, flat)
}"""
WRONG = (("take_last_target", "y"),)
WHY = "wrong"
AFTER = {"Neg": 1, "Reshape": 3}


@rule(lambda g, x, s, t: g.Reshape(g.Reshape(x, s), t), contract=EXACT)
def take_last_target(g: RewriteBuilder, x: Value, s: Value, t: Value) -> Value:
    """Reshape(Reshape(x, s), t) => Reshape(x, t)"""
    return g.Reshape(x, t)
