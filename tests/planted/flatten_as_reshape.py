"""A Flatten becomes a Reshape that keeps the first axis, whichever axis it flattens from."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, rule

MODEL = """g (float[3,2,4] x) => (float[6,4] y, float[3,8] z) {
    y = Flatten<axis=2>(x)
    n = Neg(x)
    i = Identity(n)
    z = Flatten(i)
}"""
WRONG = (("flatten_to_reshape", "y"),)
WHY = "wrong"
AFTER = {"Flatten": 1, "Neg": 1, "Reshape": 1}


@rule(lambda g, x, op: g.Flatten(x) @ op, contract=EXACT)
def flatten_to_reshape(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Flatten(x) => Reshape(x, [0, -1])"""
    return g.Reshape(x, g.const([0, -1]))
