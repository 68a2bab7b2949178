"""The number of rows is read as that of columns, in a model whose inputs share no symbol."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[s0,s1] x, float[s2,s3] m) => (float[s0,s1] y) {
    a = Concat<axis = 0>(x, m)
    b = Concat<axis = 1>(x, m)
    s = Shape<start = 0, end = 1>(x)
    f = Cast<to = 1>(s)
    d = Sub(x, m)
    e = ReduceSum<keepdims = 0>(a)
    h = ReduceSum<keepdims = 0>(b)
    i = Add(e, h)
    j = Add(d, i)
    y = Div(j, f)
}"""
WRONG = (("other_extent", "s"),)
WHY = "wrong"
AFTER = {"Add": 2, "Cast": 1, "Concat": 2, "Div": 1, "ReduceSum": 2, "Shape": 1, "Sub": 1}


@rule(lambda g, x: g.Shape(x, start=0, end=1), contract=EXACT)
def other_extent(g: RewriteBuilder, x: Value) -> Value:
    """Shape(x)[0:1] => Shape(x)[1:2]"""
    return g.Shape(x, start=1, end=2)
