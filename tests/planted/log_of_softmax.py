"""Log(Softmax(x)) is minus infinity where Softmax underflows; LogSoftmax(x) is not.

Right where x is small. Done by onnxsim and onnxoptimizer.
"""

from __future__ import annotations

from passwright.core import Build, Value, rule

MODEL = """g (float[N,5] x) => (float[N,5] y, float[N,5] z) {
    s = Softmax(x)
    y = Log(s)
    t = Tanh(x)
    u = Softmax(t)
    i = Identity(u)
    z = Log(i)
}"""
WRONG = (("log_of_softmax", "y"),)
WHY = "wrong"
AFTER = {"Log": 1, "LogSoftmax": 1, "Softmax": 1, "Tanh": 1}


@rule(lambda g, x, a: g.Log(g.Softmax(x, axis=a)))
def log_of_softmax(g: Build, x: Value, a: int) -> Value:
    """Log(Softmax(x)) => LogSoftmax(x)"""
    return g.LogSoftmax(x, axis=a)
