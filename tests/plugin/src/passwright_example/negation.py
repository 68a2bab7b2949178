"""Two negations are none."""

from __future__ import annotations

from passwright.core import EXACT, Build, Value, rule


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel_negations(g: Build, x: Value) -> Value:
    """Neg(Neg(x)) => x"""
    return x
