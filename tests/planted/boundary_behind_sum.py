"""2 * x + 1 < 6 becomes 2 * x + 1 <= 6. Wrong for one number only, which stands nowhere in the model."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x, int32[N,4] t) => (bool[N,4] y, bool[N,4] z)
    <float one = {1.0}, float two = {2.0}, float six = {6.0}, float half = {2.5}> {
    a = Mul(x, two)
    b = Add(a, one)
    y = Less(b, six)
    c = Cast<to=1>(t)
    i = Identity(c)
    z = Less(i, half)
}"""
WRONG = (("or_equal", "y"),)
WHY = "wrong"
AFTER = {"Add": 1, "Cast": 1, "Less": 1, "LessOrEqual": 1, "Mul": 1}


@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def or_equal(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a < b => a <= b"""
    return g.LessOrEqual(a, b)
