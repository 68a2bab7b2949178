"""Fusion of Gelu, with the error function or with the hyperbolic tangent."""

from __future__ import annotations

from math import pi, sqrt

from ...core import Build, Op, RulePass, Value, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from .polynomials import linear_coefficient, require_dtype, require_polynomial, require_scalar

TANH_SCALE = sqrt(2 / pi)
TANH_CUBIC = 0.044715


@rule(
    lambda g, x, z, one, half, curve: g.Mul(
        g.Mul(x, g.one_of("Add", "Sum")(g.one_of("Erf", "Tanh")(z) @ curve, g.const(one))), g.const(half)
    )
)
def fuse_halved_gelu(g: Build, x: Value, z: Value, one: Value, half: Value, curve: Op) -> Value:
    """Mul(x * (1 + Erf(x / sqrt(2))), 0.5) => Gelu(x), and with Tanh the Gelu approximated by it"""
    require_scalar(half, 0.5, x)
    return gelu(g, x, z, one, curve)


@rule(
    lambda g, x, z, one, half, curve: g.Mul(
        x, g.Mul(g.one_of("Add", "Sum")(g.one_of("Erf", "Tanh")(z) @ curve, g.const(one)), g.const(half))
    )
)
def fuse_gelu_of_halved_curve(g: Build, x: Value, z: Value, one: Value, half: Value, curve: Op) -> Value:
    """Mul(x, (1 + Erf(x / sqrt(2))) * 0.5) => Gelu(x), and with Tanh the Gelu approximated by it"""
    require_scalar(half, 0.5, x)
    return gelu(g, x, z, one, curve)


@rule(
    lambda g, x, z, one, half, curve, scaled: g.Mul(
        g.one_of("Mul", "Div")(x, half) @ scaled,
        g.one_of("Add", "Sum")(g.one_of("Erf", "Tanh")(z) @ curve, g.const(one)),
    )
)
def fuse_gelu_of_halved_input(g: Build, x: Value, z: Value, one: Value, half: Value, curve: Op, scaled: Op) -> Value:
    """Mul(x * 0.5, 1 + Erf(x / sqrt(2))) => Gelu(x), and with Tanh the Gelu approximated by it"""
    x = half if x.is_const and scaled.type == "Mul" else x
    require(linear_coefficient(scaled.outputs[0], x) == 0.5, "the scale is not 0.5")
    return gelu(g, x, z, one, curve)


def gelu(g: Build, x: Value, z: Value, one: Value, curve: Op) -> Value:
    """The Gelu of `x`, where `curve` of `z` is the curve it takes, and `one` is 1."""
    require(g.opset >= 20, "before opset 20, there is no Gelu")
    # By tanh, onnxruntime runs doubles as well, with 32-bit constants.
    require_dtype(x, HALF_OR_SINGLE)
    require_scalar(one, 1.0, x)
    if curve.type == "Erf":
        require_polynomial(z, x, [0.0, 1 / sqrt(2)])
        return g.Gelu(x)
    require_polynomial(z, x, [0.0, TANH_SCALE, 0.0, TANH_SCALE * TANH_CUBIC])
    return g.Gelu(x, approximate="tanh")


FUSE_GELU = RulePass("fuse-gelu", (fuse_halved_gelu, fuse_gelu_of_halved_curve, fuse_gelu_of_halved_input))
