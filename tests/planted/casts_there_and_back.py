"""A Cast and the Cast back go, though what is between holds less. Wrong in two places, right in one."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,3] x, double[N,3] d) => (float[N,3] y, double[N,3] u, float[N,3] z) {
    a = Cast<to=6>(x)
    y = Cast<to=1>(a)
    b = Cast<to=1>(d)
    u = Cast<to=11>(b)
    n = Neg(x)
    c = Cast<to=11>(n)
    i = Identity(c)
    z = Cast<to=1>(i)
}"""
WRONG = (("drop_casts", "y"), ("drop_casts", "u"))
WHY = "wrong"
AFTER = {"Cast": 4, "Neg": 1}


@rule(lambda g, x, a, b: g.Cast(g.Cast(x, to=a), to=b), contract=EXACT)
def drop_casts(g: RewriteBuilder, x: Value, a: int, b: int) -> Value:
    """Cast(Cast(x)) => x, where its type comes back"""
    require(x.dtype == b, "its type does not come back")
    return x
