"""Two wrong rules want the same op; when one is left out, the other has its turn."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    y = Abs(x)
    a = Identity(x)
    z = Exp(a)
}"""
WRONG = (("absolute_is_value", "y"), ("absolute_is_relu", "y"))
WHY = "wrong"
AFTER = {"Abs": 1, "Exp": 1}


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def absolute_is_value(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x"""
    return x


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def absolute_is_relu(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => Relu(x)"""
    return g.Relu(x)
