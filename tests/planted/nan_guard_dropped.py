"""Where(IsNaN(x), 0, x) goes, since nothing is ever NaN. NaN only."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float zero = {0.0}> {
    a = IsNaN(x)
    y = Where(a, zero, x)
    b = Not(a)
    c = Cast<to=1>(b)
    d = IsNaN(c)
    i = Where(d, zero, c)
    z = Neg(i)
}"""
WRONG = (("drop_nan_guard", "y"),)
WHY = "wrong"
AFTER = {"Cast": 1, "IsNaN": 1, "Neg": 1, "Not": 1, "Where": 1}


@rule(lambda g, x, c: g.Where(g.IsNaN(x), c, x), contract=EXACT, allow_other_uses=True)
def drop_nan_guard(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """Where(IsNaN(x), c, x) => x"""
    return x
