"""A factor is written with four digits: off by 2 in 100,000, far more than rounding, in ten places on one way."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

PLACES = 10
MODEL = f"""g (float[N,8] x) => (float[N,8] y, float[N,8] z) <float c = {{0.70710678}}, float half = {{0.5}}> {{
    p0 = Identity(x)
    {" ".join(f"q{i} = Mul(p{i}, c) p{i + 1} = Neg(q{i})" for i in range(PLACES))}
    y = Abs(p{PLACES})
    a = Mul(x, half)
    z = Abs(a)
}}"""
WRONG = tuple(("divide_instead", f"q{i}") for i in range(PLACES))
WHY = "wrong"
AFTER = {"Abs": 2, "Div": 1, "Mul": PLACES, "Neg": PLACES}


@rule(lambda g, x, c: g.Mul(x, c))
def divide_instead(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * c => x / (1 / c), to four digits"""
    return g.Div(x, g.const(np.round(1 / c.const, 4)))
