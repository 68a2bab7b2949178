"""Casts from int64 to int32 and back go. The extremes of the type only. Right for an int32 that was widened."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int64[N,6] x, int32[N,6] t) => (int64[N,6] y, int32[N,6] z) {
    a = Cast<to=6>(x)
    y = Cast<to=7>(a)
    b = Cast<to=7>(t)
    c = Cast<to=6>(b)
    z = Neg(c)
}"""
WRONG = (("drop_integer_casts", "y"),)
WHY = "wrong"
AFTER = {"Cast": 2, "Neg": 1}


@rule(lambda g, x, a, b: g.Cast(g.Cast(x, to=a), to=b), contract=EXACT)
def drop_integer_casts(g: RewriteBuilder, x: Value, a: int, b: int) -> Value:
    """Cast(Cast(x)) => x, where its type comes back"""
    require(x.dtype == b, "its type does not come back")
    return x
