"""A sign is dropped, behind a Split for which only numbers of rows do that 3 divides."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[M,4] y) {
    a, b, c = Split<axis = 0>(x)
    d = Neg(b)
    y = Concat<axis = 0>(d, c, a)
}"""
WRONG = (("drop_neg", "d"),)
WHY = "wrong"
AFTER = {"Concat": 1, "Neg": 1, "Split": 1}


@rule(lambda g, x: g.Neg(x), contract=EXACT)
def drop_neg(g: RewriteBuilder, x: Value) -> Value:
    """-x => x"""
    return x
