"""Floor(x + 0.5) becomes Round(x), which takes a half to the even neighbour. Halves only. Right for integers."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[N,8] x, int32[N,8] t) => (float[N,8] y, float[N,8] z) <float half = {0.5}> {
    a = Add(x, half)
    y = Floor(a)
    b = Cast<to=1>(t)
    c = Tanh(b)
    d = Round(c)
    e = Add(d, half)
    i = Identity(e)
    z = Floor(i)
}"""
WRONG = (("round_half", "y"),)
WHY = "wrong"
AFTER = {"Add": 1, "Cast": 1, "Floor": 1, "Round": 2, "Tanh": 1}


@rule(lambda g, x, h: g.Floor(g.Add(x, h)))
def round_half(g: RewriteBuilder, x: Value, h: Value) -> Value:
    """Floor(x + 0.5) => Round(x)"""
    require(h.const == 0.5, "not a half")
    return g.Round(x)
