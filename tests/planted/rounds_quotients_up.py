"""Round(x) becomes Floor(x + 0.5). Wrong for halves of odd numbers, which quotients of integers are."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (int64[N,6] x) => (float[N,6] y, float[N,6] z)
  <float four = {4.0}, float two = {2.0}, float third = {0.3}> {
    f = Cast<to=1>(x)
    q = Div(f, four)
    a = Round(q)
    y = Mul(a, two)
    s = Add(f, third)
    i = Identity(s)
    z = Round(i)
}"""
WRONG = (("round_half_up", "a"),)
WHY = "wrong"
AFTER = {"Add": 2, "Cast": 1, "Div": 1, "Floor": 1, "Mul": 1, "Round": 1}


@rule(lambda g, x: g.Round(x))
def round_half_up(g: RewriteBuilder, x: Value) -> Value:
    """Round(x) => Floor(x + 0.5)"""
    return g.Floor(g.Add(x, g.const(np.float32(0.5))))
