"""A rule with conditions on a constant, on types and on shapes."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, FLOATS, RewriteBuilder, Value, require, rule


@rule(lambda g, x, c: g.Div(x, g.const(c)), contract=EXACT)
def divide_by_multiplication(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x / c => x * (1 / c), where c is a power of two, whose reciprocal is exact"""
    require(x.dtype in FLOATS and x.dtype != np.float16, "it is not in single or double precision")
    require(c.const.size == 1 and c.rank <= x.rank, f"{c.name} is not one number, or adds dims")
    fraction, exponent = np.frexp(c.const.astype(np.float64))
    require(bool((np.abs(fraction) == 0.5).all() and (np.abs(exponent) < 100).all()), f"{c.name} is no power of two")
    return g.Mul(x, g.const(1 / c.const, like=c))
