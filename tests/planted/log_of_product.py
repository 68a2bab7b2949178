"""Log(a * b) becomes Log(a) + Log(b), which is NaN where both are negative. Right for what is positive."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float one = {1.0}> {
    a = Mul(x, x)
    b = Add(x, one)
    c = Mul(b, x)
    y = Log(c)
    s = Sigmoid(a)
    p = Add(s, one)
    d = Mul(s, p)
    i = Identity(d)
    z = Log(i)
}"""
WRONG = (("log_of_product", "y"),)
WHY = "wrong"
AFTER = {"Add": 3, "Log": 3, "Mul": 2, "Sigmoid": 1}


@rule(lambda g, a, b: g.Log(g.Mul(a, b)))
def log_of_product(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Log(a * b) => Log(a) + Log(b)"""
    return g.Add(g.Log(a), g.Log(b))
