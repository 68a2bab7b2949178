"""Keys of rows and columns are compared as floats, in which those above 2**24 are equal to their neighbours."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int64[N,1] row, int64[1,M] column, float[N,M] x) => (float[N,M] y) <float off = {-9.0}> {
    later = Greater(column, row)
    s = Where(later, off, x)
    y = Softmax<axis = 1>(s)
}"""
WRONG = (("compare_floats", "later"),)
WHY = "wrong"
AFTER = {"Greater": 1, "Softmax": 1, "Where": 1}


@rule(lambda g, a, b: g.Greater(a, b), contract=EXACT)
def compare_floats(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a > b => float(a) > float(b)"""
    require(a.known_dtype == 7, "not int64")
    return g.Greater(g.Cast(a, to=1), g.Cast(b, to=1))
