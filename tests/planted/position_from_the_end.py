"""Positions in a sequence are taken as non-negative."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[2] x, float[2] z, int64 i) => (float[2] y) {
    s = SequenceConstruct(x, z, x, z, z)
    a = SequenceAt(s, i)
    y = Neg(a)
}"""
WRONG = (("clamp", "a"),)
WHY = "wrong"
AFTER = {"Neg": 1, "SequenceAt": 1, "SequenceConstruct": 1}


@rule(lambda g, s, i: g.SequenceAt(s, i), contract=EXACT)
def clamp(g: RewriteBuilder, s: Value, i: Value) -> Value:
    """s[i] => s[|i|]"""
    require(i.producer is None, "done")
    return g.SequenceAt(s, g.Abs(i))
