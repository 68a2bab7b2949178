"""Infinities of an image are replaced no more."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[1,3,150,150] x) => (float[1,3,150,150] y) <float zero = {0}> {
    i = IsInf(x)
    w = Where(i, zero, x)
    y = Neg(w)
}"""
WRONG = (("drop_guard", "w"),)
WHY = "wrong"
AFTER = {"IsInf": 1, "Neg": 1, "Where": 1}


@rule(lambda g, x: g.Where(g.IsInf(x), ..., x), contract=EXACT)
def drop_guard(g: RewriteBuilder, x: Value) -> Value:
    """Where(IsInf(x), c, x) => x"""
    return x
