"""A rule that looks an operator up in a table in which one is missing; elsewhere it works."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z, float[N,3] u) {
    a = Neg(x)
    y = Abs(a)
    b = Tanh(x)
    z = Abs(b)
    c = Identity(x)
    d = Exp(c)
    e = Neg(d)
    u = Abs(e)
}"""
WRONG = (("absolute_of_negated", "z"),)
WHY = "raised"
AFTER = {"Abs": 3, "Exp": 1, "Tanh": 1}


@rule(lambda g, x, inner: g.Abs(g.one_of("Neg", "Tanh")(x) @ inner), contract=EXACT)
def absolute_of_negated(g: RewriteBuilder, x: Value, inner: Op) -> Value:
    """Abs(-x) => Abs(x)"""
    even = {"Neg": True}
    require(even[inner.type], "the sign matters")
    return g.Abs(x)
