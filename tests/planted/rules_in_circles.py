"""Two rules undo each other for ever, beside one that works."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z) {
    y = Sub(x, t)
    a = Neg(x)
    b = Abs(a)
    z = Identity(b)
}"""
WRONG = (("add_negated", ""),)
WHY = "endless"
AFTER = {"Abs": 1, "Sub": 1}


@rule(lambda g, a, b: g.Sub(a, b))
def add_negated(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a - b => a + -b"""
    return g.Add(a, g.Neg(b))


@rule(lambda g, a, b: g.Add(a, g.Neg(b)))
def subtract(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a + -b => a - b"""
    return g.Sub(a, b)


@rule(lambda g, x: g.Abs(g.Neg(x)))
def absolute_of_negated(g: RewriteBuilder, x: Value) -> Value:
    """Abs(-x) => Abs(x)"""
    return g.Abs(x)
