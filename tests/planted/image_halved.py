"""Round(x) becomes Floor(x + 0.5). Wrong for half of all odd brightnesses."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (uint8[N,3,8,8] x) => (float[N,3,8,8] y, float[N,3,8,8] z)
  <float half = {0.5}, float quarter = {0.25}> {
    f = Cast<to=1>(x)
    h = Mul(f, half)
    y = Round(h)
    s = Add(f, quarter)
    z = Round(s)
}"""
WRONG = (("round_half_up", "y"),)
WHY = "wrong"
AFTER = {"Add": 2, "Cast": 1, "Floor": 1, "Mul": 1, "Round": 1}


@rule(lambda g, x: g.Round(x))
def round_half_up(g: RewriteBuilder, x: Value) -> Value:
    """Round(x) => Floor(x + 0.5)"""
    return g.Floor(g.Add(x, g.const(np.float32(0.5))))
