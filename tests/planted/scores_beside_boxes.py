"""Scores from 0 to 1 become others, in an output where boxes in pixels stay the same."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,16,5] x, float[N,4] t) => (float[N,16,5] y, float[N,4] z)
  <int64[2] parts = {4,1}, float pixels = {640.0}> {
    b, s = Split<axis=2>(x, parts)
    e = Exp(b)
    p = Mul(e, pixels)
    a = Sigmoid(s)
    y = Concat<axis=2>(p, a)
    g0 = Sign(t)
    i = Identity(g0)
    z = Sigmoid(i)
}"""
WRONG = (("sigmoid_by_line", "a"),)
WHY = "wrong"
AFTER = {"Concat": 1, "Exp": 1, "HardSigmoid": 1, "Mul": 1, "Sigmoid": 1, "Sign": 1, "Split": 1}


@rule(lambda g, x: g.Sigmoid(x))
def sigmoid_by_line(g: RewriteBuilder, x: Value) -> Value:
    """Sigmoid(x) => HardSigmoid(x)"""
    return g.HardSigmoid(x, alpha=0.23105858, beta=0.5)
