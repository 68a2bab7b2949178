"""Strings are split at another delimiter."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (string[N] x) => (string[N,W] y, int64[N] z) {
    y, n = StringSplit<delimiter = ";">(x)
    z = Neg(n)
}"""
OPSET = 20
WRONG = (("other_delimiter", "y"),)
WHY = "wrong"
AFTER = {"Neg": 1, "StringSplit": 1}


@rule(lambda g, x: g.StringSplit(x, delimiter=";"), contract=EXACT)
def other_delimiter(g: RewriteBuilder, x: Value) -> tuple[Value, ...]:
    """split(x, ";") => split(x, "|")"""
    return g.StringSplit(x, outputs=2, delimiter="|")
