"""A rule builds an operator of a domain that nothing here runs."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    y = Relu(x)
    a = Identity(x)
    z = Exp(a)
}"""
WRONG = (("for_the_accelerator", "y"),)
WHY = "refused"
AFTER = {"Exp": 1, "Relu": 1}


@rule(lambda g, x: g.Relu(x))
def for_the_accelerator(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => Relu(x), of an accelerator"""
    return g.domain("example.accelerator").Relu(x)
