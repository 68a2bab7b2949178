"""A custom operator: its kernel, and a rule on it with a model for checks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from passwright.core import EXACT, RewriteBuilder, Value, kernel, require, rule


@kernel("com.acme.Scale")
def scale(x: NDArray[Any], factor: float = 1.0) -> NDArray[Any]:
    """X * factor."""
    return x * np.float32(factor)


@rule(
    lambda g, x, f: g.domain("com.acme").Scale(g.domain("com.acme").Scale(x, factor=lambda f: f == 1), factor=f),
    contract=EXACT,
)
def drop_unit_scales(g: RewriteBuilder, x: Value, f: float) -> Value:
    """Scale(Scale(x, factor=1), factor=1) => Scale(x, factor=1)"""
    require(f == 1, "it changes the numbers")
    return g.domain("com.acme").Scale(x, factor=f)


EXAMPLES = {
    "drop_unit_scales": [
        """<ir_version: 8, opset_import: ["": 17, "com.acme": 1]>
        g (float[N] x) => (float[N] y) <float[N] a, float[N] b> {
            a = com.acme.Scale<factor = 1.0>(x)
            b = com.acme.Scale<factor = 1.0>(a)
            y = Neg(b)
        }"""
    ]
}
