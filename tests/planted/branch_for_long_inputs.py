"""A rule that is wrong, in the branch of an If for more than 512 rows."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N] x) => (float[N] y) <int64 most = {512}> {
    s = Shape(x)
    n = Squeeze(s)
    c = Greater(n, most)
    y = If(c) <
        then_branch = t () => (float[N] p) { a = Abs(x)  p = Ceil(a) },
        else_branch = e () => (float[N] q) { q = Tanh(x) }
    >
}"""
WRONG = (("drop_ceil", "p"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Ceil": 1, "Greater": 1, "If": 1, "Shape": 1, "Squeeze": 1, "Tanh": 1}


@rule(lambda g, x: g.Ceil(x), contract=EXACT)
def drop_ceil(g: RewriteBuilder, x: Value) -> Value:
    """Ceil(x) => x"""
    return x
