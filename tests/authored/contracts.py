"""Contracts: a condition on numbers, and one contract for each kind of element type."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, INTEGERS, Op, RewriteBuilder, Value, by_dtype, conditional, require, rule


@rule(lambda g, x, y: g.Neg(g.Sub(x, y)), contract=by_dtype(INTEGERS, EXACT))
def turn_difference(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """-(x - y) => y - x, which has another sign where it is 0"""
    return g.Sub(y, x)


@rule(
    lambda g, x, length: g.Div(x, g.ReduceL2(x) @ length),
    contract=conditional("no length is near 0", assume=lambda g, length: g.Greater(length, 1e-30)),
)
def multiply_by_reciprocal(g: RewriteBuilder, x: Value, length: Op) -> Value:
    """x / ReduceL2(x) => x * Reciprocal(ReduceL2(x))"""
    require(x.dtype == np.float32, "reciprocals of halves overflow")
    return g.Mul(x, g.Reciprocal(length.outputs[0]))
