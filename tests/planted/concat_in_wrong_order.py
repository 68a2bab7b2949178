"""A Concat inside a Concat is opened, and what it held comes first, wherever it stood."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,2] x, float[N,2] t) => (float[N,6] y, float[N,6] z) {
    a = Neg(x)
    b = Concat<axis=1>(a, x)
    y = Concat<axis=1>(t, b)
    c = Abs(x)
    d = Concat<axis=1>(x, c)
    i = Identity(d)
    z = Concat<axis=1>(i, t)
}"""
WRONG = (("open_concat", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Concat": 3, "Neg": 1}


@rule(lambda g, before, inner, after, k: g.Concat(*before, g.Concat(*inner, axis=k), *after, axis=k), contract=EXACT)
def open_concat(
    g: RewriteBuilder, before: tuple[Value, ...], inner: tuple[Value, ...], after: tuple[Value, ...], k: int
) -> Value:
    """Concat(*before, Concat(*inner), *after) => Concat(*inner, *before, *after)"""
    return g.Concat(*inner, *before, *after, axis=k)
