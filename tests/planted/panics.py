"""A rule raises what is not an Exception, as extension modules do."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Neg(x)
    y = Abs(a)
    s = Sigmoid(x)
    i = Identity(s)
    z = Abs(i)
}"""
WRONG = (("panics", "y"),)
WHY = "raised"
AFTER = {"Abs": 1, "Neg": 1, "Sigmoid": 1}


class PanicError(BaseException):
    """The end of the world."""


@rule(lambda g, x, a: g.Abs(x) @ a, contract=EXACT)
def panics(g: RewriteBuilder, x: Value, a: Op) -> Value:
    """Abs(x) => x behind Sigmoid"""
    maker = g.graph.producer(x)
    if maker is None or maker.type != "Sigmoid":
        raise PanicError(a.label)
    return x
