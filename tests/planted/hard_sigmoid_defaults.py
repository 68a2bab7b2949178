"""Clip(x + 3, 0, 6) / 6 becomes a HardSigmoid with its default slope, 0.2. Right far from 0."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,6] x) => (float[N,6] y, float[N,6] z)
    <float three = {3.0}, float zero = {0.0}, float six = {6.0}, float far = {64.0}> {
    a = Add(x, three)
    b = Clip(a, zero, six)
    y = Div(b, six)
    s = Sign(x)
    f = Mul(s, far)
    c = Add(f, three)
    d = Clip(c, zero, six)
    i = Identity(d)
    z = Div(i, six)
}"""
WRONG = (("hard_sigmoid", "y"),)
WHY = "wrong"
AFTER = {"Add": 1, "Clip": 1, "Div": 1, "HardSigmoid": 1, "Mul": 1, "Sign": 1}


@rule(lambda g, x, c, lo, hi: g.Div(g.Clip(g.Add(x, c), lo, hi), hi))
def hard_sigmoid(g: RewriteBuilder, x: Value, c: Value, lo: Value, hi: Value) -> Value:
    """Clip(x + 3, 0, 6) / 6 => HardSigmoid(x)"""
    return g.HardSigmoid(x)
