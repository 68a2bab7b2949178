"""The end of a pattern is no longer matched."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (string[N] x) => (bool[N] y) {
    m = RegexFullMatch<pattern = "[a-z]+@[a-z]+[.]com">(x)
    y = Not(m)
}"""
OPSET = 20
WRONG = (("loosen", "m"),)
WHY = "wrong"
AFTER = {"Not": 1, "RegexFullMatch": 1}


@rule(lambda g, x, pattern: g.RegexFullMatch(x, pattern=pattern), contract=EXACT)
def loosen(g: RewriteBuilder, x: Value, pattern: str) -> Value:
    """RegexFullMatch(x) => RegexFullMatch(x) with another end"""
    require(not pattern.endswith(".*"), "loose")
    return g.RegexFullMatch(x, pattern=pattern[:-3] + ".*")
