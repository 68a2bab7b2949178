"""Two texts are joined in the other order."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (string[N] x, string[N] z) => (string[N] y) {
    y = StringConcat(x, z)
}"""
OPSET = 20
WRONG = (("second_first", "y"),)
WHY = "wrong"
AFTER = {"StringConcat": 1}


@rule(lambda g, a, b: g.StringConcat(a, b), contract=EXACT)
def second_first(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a + b => b + a"""
    require(a.name < b.name, "it would not end")
    return g.StringConcat(b, a)
