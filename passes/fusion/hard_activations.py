"""Fusion of HardSigmoid and HardSwish."""

from __future__ import annotations

from typing import Any

from ...core import Build, Op, RulePass, Value, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from .polynomials import affine_form, is_close, require_dtype, require_polynomial, scalar_constant

SIXTH = 1 / 6


@rule(lambda g, z, low, high: g.Clip(z, min=low, max=high), fragile=(-3, 3))
def fuse_hard_sigmoid(g: Build, z: Value, low: Any, high: Any) -> Value:
    """Clip(a * x + b, 0, 1) => HardSigmoid(x, a, b)"""
    require(low == 0 and high == 1, "the Clip has other bounds")
    x, a, b = affine_form(z)
    require(x is not z, "the slope is 0")
    require_dtype(x, HALF_OR_SINGLE)
    return g.HardSigmoid(x, alpha=a, beta=b)


@rule(
    lambda g, z, low, high, c, scaled: g.one_of("Mul", "Div")(g.Clip(z, min=low, max=high), g.const(c)) @ scaled,
    fragile=(-3, 3),
)
def fuse_scaled_hard_sigmoid(g: Build, z: Value, low: Any, high: Any, c: Value, scaled: Op) -> Value:
    """Clip(a * x + b, 0, c) / c => HardSigmoid(x, a / c, b / c)"""
    require(low == 0 and isinstance(high, int | float) and high > 0, "the Clip has other bounds")
    require_dtype(z, HALF_OR_SINGLE)
    matches = is_close(scalar_constant(c, z), 1 / high if scaled.type == "Mul" else high, z)
    require(matches, "the scale and the bounds do not match")
    x, a, b = affine_form(z)
    return g.HardSigmoid(x, alpha=a / high, beta=b / high)


@rule(lambda g, x, a, b: g.Mul(x, g.HardSigmoid(x, alpha=a, beta=b)), fragile=(-3, 3))
def fuse_hard_swish(g: Build, x: Value, a: float, b: float) -> Value:
    """Mul(x, HardSigmoid(x, 1/6, 1/2)) => HardSwish(x)"""
    require_dtype(x, HALF_OR_SINGLE)
    require(is_close(a, SIXTH, x) and is_close(b, 0.5, x), "the line has other coefficients")
    return g.HardSwish(x)


@rule(
    lambda g, x, z, c, scaled: g.one_of("Mul", "Div")(g.Mul(x, g.Clip(z, min=0.0, max=6.0)), g.const(c)) @ scaled,
    fragile=(-3, 3),
)
def fuse_scaled_hard_swish(g: Build, x: Value, z: Value, c: Value, scaled: Op) -> Value:
    """Div(x * Clip(x + 3, 0, 6), 6) => HardSwish(x)"""
    require_dtype(x, HALF_OR_SINGLE)
    matches = is_close(scalar_constant(c, x), SIXTH if scaled.type == "Mul" else 6.0, x)
    require(matches, "the scale and the bounds do not match")
    require_polynomial(z, x, [3.0, 1.0])
    return g.HardSwish(x) if g.opset >= 14 else g.Mul(x, g.HardSigmoid(x, alpha=SIXTH, beta=0.5))


FUSE_HARD_ACTIVATIONS = RulePass(
    "fuse-hard-activations", (fuse_scaled_hard_sigmoid, fuse_hard_sigmoid, fuse_hard_swish, fuse_scaled_hard_swish)
)
