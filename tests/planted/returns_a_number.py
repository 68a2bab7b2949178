"""A rule that returns a number where it should return a value."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    a = Sigmoid(x)
    y = Relu(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("bound_of_sigmoid", "y"),)
WHY = "raised"
AFTER = {"Exp": 1, "Relu": 1, "Sigmoid": 1}


@rule(lambda g, x: g.Relu(g.Sigmoid(x)))
def bound_of_sigmoid(g: RewriteBuilder, x: Value) -> Value:
    """Relu(Sigmoid(x)) => Sigmoid(x)"""
    return 1.0  # pyright: ignore[reportReturnType]
