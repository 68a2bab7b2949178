"""An index that the caller gives is taken to be positive. Wrong only for indices from the end."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[6,2] x, int64[3] i, bool[3] b) => (float[3,2] y, float[3,2] z) {
    y = Gather(x, i)
    a = Identity(b)
    k = Cast<to=7>(a)
    z = Gather(x, k)
}"""
WRONG = (("index_from_the_start", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Cast": 1, "Gather": 2}


@rule(lambda g, x, i: g.Gather(x, i), contract=EXACT)
def index_from_the_start(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """Gather(x, i) => Gather(x, Abs(i))"""
    maker = g.graph.producer(i)
    require(maker is None or maker.type != "Abs", "it is positive")
    return g.Gather(x, g.Abs(i))
