"""A Dropout goes, though it is in training form."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,8] x) => (float[N,8] y, float[N,8] z) <float half = {0.5}, bool yes = {1}, bool no = {0}> {
    a = Neg(x)
    d = Dropout(a, half, yes)
    y = Abs(d)
    b = Exp(a)
    c = Dropout(b, half, no)
    z = Abs(c)
}"""
WRONG = (("drop_every_dropout", "d"),)
WHY = "wrong"
AFTER = {"Abs": 2, "Dropout": 1, "Exp": 1, "Neg": 1}


@rule(lambda g, x, rest: g.Dropout(x, *rest), contract=EXACT)
def drop_every_dropout(g: RewriteBuilder, x: Value, rest: tuple[Value | None, ...]) -> Value:
    """Dropout(x) => x"""
    return x
