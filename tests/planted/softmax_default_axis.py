"""The axis of a Softmax that states none is taken to be the last; before opset 13 it is 1, with all that follow."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,3,4] x, float[N,4] t) => (float[N,3,4] y, float[N,4] z) {
    a = Tanh(x)
    b = Softmax(a)
    y = Log(b)
    c = Tanh(t)
    d = Softmax(c)
    i = Identity(d)
    z = Log(i)
}"""
OPSET = 11
WRONG = (("log_softmax_of_last", "y"),)
WHY = "wrong"
AFTER = {"Log": 1, "LogSoftmax": 1, "Softmax": 1, "Tanh": 2}


@rule(lambda g, x: g.Log(g.Softmax(x)))
def log_softmax_of_last(g: RewriteBuilder, x: Value) -> Value:
    """Log(Softmax(x)) => LogSoftmax(x, last axis)"""
    return g.LogSoftmax(x, axis=x.rank - 1)
