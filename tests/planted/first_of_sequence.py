"""An element of a sequence that was just made is taken from it, always the first."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x, float[N,4] t) => (float[N,4] y, float[N,4] z) <int64 last = {-1}, int64 zero = {0}> {
    a = Neg(x)
    s = SequenceConstruct(a, t)
    y = SequenceAt(s, last)
    b = Abs(t)
    r = SequenceConstruct(b, x)
    i = Identity(r)
    c = SequenceAt(i, zero)
    z = Exp(c)
}"""
WRONG = (("take_from_sequence", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1, "SequenceAt": 1, "SequenceConstruct": 1}


@rule(lambda g, xs, i: g.SequenceAt(g.SequenceConstruct(*xs), i), contract=EXACT)
def take_from_sequence(g: RewriteBuilder, xs: tuple[Value, ...], i: Value) -> Value:
    """SequenceAt(SequenceConstruct(*xs), i) => xs[0]"""
    return xs[0]
