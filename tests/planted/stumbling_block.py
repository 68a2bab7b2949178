"""A rule leaves a Transpose with an axis that is not there; a built-in pass stumbles over it, and comes back."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y) {
    a = Relu(x)
    t = Transpose(a)
    u = Transpose(t)
    y = Neg(u)
}"""
WRONG = (("to_transposes", "a"),)
WHY = "refused"
AFTER = {"Neg": 1, "Relu": 1}


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def to_transposes(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => two Transposes"""
    return g.Transpose(g.Transpose(x, perm=[1, 0]), perm=[0, 2])
