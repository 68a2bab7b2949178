"""A sine over a cosine is a tangent."""

from __future__ import annotations

from passwright.core import ROUNDING, Build, Value, rule


@rule(lambda g, x: g.Div(g.Sin(x), g.Cos(x)), contract=ROUNDING)
def quotient_to_tan(g: Build, x: Value) -> Value:
    """Sin(x) / Cos(x) => Tan(x)"""
    return g.Tan(x)
