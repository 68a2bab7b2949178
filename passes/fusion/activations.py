"""Fusion of activations.

`fuse-gelu`: Fusion of Gelu, with the error function or with the hyperbolic tangent.
`fuse-activations`: Fusion of smooth activations: Sigmoid, Softplus, Softsign, Mish.
`fuse-swish`: Fusion of Swish, which onnxruntime runs as a Mul by alpha more than its parts.
`fuse-hard-activations`: Fusion of HardSigmoid and HardSwish.
`fuse-rectifiers`: Fusion of rectifiers: LeakyRelu, PRelu, Elu, ThresholdedRelu.
"""

from __future__ import annotations

from math import inf, pi, sqrt
from typing import Any

import numpy as np

from ...core import EXACT, Op, RewriteBuilder, Value, conditional, require, rule
from ...core.ir.dtypes import CPU_FLOATS, HALF_OR_SINGLE
from ..support.operand_queries import is_finite, require_broadcastable_to
from .polynomials import affine_form, is_close, linear_coefficient, require_dtype, require_polynomial, scalar_constant

TANH_SCALE = sqrt(2 / pi)
TANH_CUBIC = 0.044715


def curve_plus_one(g: Any, z: Any, curve: Any) -> Any:
    """The pattern of 1 + Erf(z) or 1 + Tanh(z)."""
    return g.one_of("Add", "Sum")(g.one_of("Erf", "Tanh")(z) @ curve, 1.0)


@rule(
    lambda g, x, z, curve: g.Mul(g.Mul(x, curve_plus_one(g, z, curve)), 0.5),
    lambda g, x, z, curve: g.Mul(x, g.Mul(curve_plus_one(g, z, curve), 0.5)),
    lambda g, x, z, half, curve, scaled: g.Mul(g.one_of("Mul", "Div")(x, half) @ scaled, curve_plus_one(g, z, curve)),
    group="fuse-gelu",
)
def fuse_gelu(
    g: RewriteBuilder, x: Value, z: Value, curve: Op, half: Value | None = None, scaled: Op | None = None
) -> Value:
    """Mul(x * (1 + Erf(x / sqrt(2))), 0.5) => Gelu(x), and with Tanh the Gelu approximated by it"""
    if scaled is not None:
        x = half if half is not None and x.is_const and scaled.type == "Mul" else x
        require(linear_coefficient(scaled.outputs[0], x) == 0.5, "the scale is not 0.5")
    # By tanh, onnxruntime runs doubles as well, with 32-bit constants.
    require_dtype(x, HALF_OR_SINGLE)
    if curve.type == "Erf":
        require_polynomial(z, x, [0.0, 1 / sqrt(2)])
        return g.Gelu(x)
    require_polynomial(z, x, [0.0, TANH_SCALE, 0.0, TANH_SCALE * TANH_CUBIC])
    return g.Gelu(x, approximate="tanh")


@rule(
    lambda g, x: g.Reciprocal(g.Add(g.Exp(g.Neg(x)), 1.0)),
    lambda g, x: g.Div(1.0, g.Add(g.Exp(g.Neg(x)), 1.0)),
    group="fuse-activations",
)
def fuse_sigmoid(g: RewriteBuilder, x: Value) -> Value:
    """1 / (1 + Exp(-x)) => Sigmoid(x)"""
    require_dtype(x, CPU_FLOATS)
    return g.Sigmoid(x)


@rule(
    lambda g, x: g.Log(g.Add(g.Exp(x), 1.0)),
    contract=conditional("Exp(x) does not overflow", each=is_finite),
    group="fuse-activations",
)
def fuse_softplus(g: RewriteBuilder, x: Value) -> Value:
    """Log(1 + Exp(x)) => Softplus(x)"""
    require_dtype(x, HALF_OR_SINGLE)
    g.costs.require_fast_kernel("Softplus", x, saved=2)
    return g.Softplus(x)


@rule(lambda g, x: g.Div(x, g.Add(g.Abs(x), 1.0)), group="fuse-activations")
def fuse_softsign(g: RewriteBuilder, x: Value) -> Value:
    """Div(x, 1 + Abs(x)) => Softsign(x)"""
    require_dtype(x, HALF_OR_SINGLE)
    return g.Softsign(x)


@rule(lambda g, x: g.Mul(x, g.Tanh(g.Softplus(x))), group="fuse-activations")
def fuse_mish(g: RewriteBuilder, x: Value) -> Value:
    """Mul(x, Tanh(Softplus(x))) => Mish(x)"""
    require_dtype(x, HALF_OR_SINGLE)
    return g.Mish(x)


@rule(lambda g, x, z: g.Mul(x, g.Sigmoid(z)), group="fuse-swish")
def fuse_swish(g: RewriteBuilder, x: Value, z: Value) -> Value:
    """Mul(x, Sigmoid(k * x)) => Swish(x, alpha=k)"""
    # onnxruntime has no kernel for Swish, and takes its definition at the opset of that alone.
    require(g.opset == 24, "onnxruntime runs Swish at opset 24 only")
    k = linear_coefficient(z, x)
    # alpha is a 32-bit float.
    require_dtype(x, CPU_FLOATS if k == 1.0 else HALF_OR_SINGLE)
    return g.Swish(x, alpha=k)


SIXTH = 1 / 6


@rule(
    lambda g, z, low, high: g.Clip(z, min=low, max=high),
    lambda g, z, low, high, c, scaled: g.one_of("Mul", "Div")(g.Clip(z, min=low, max=high), g.const(c)) @ scaled,
    critical_values=(-3, 3),
    group="fuse-hard-activations",
)
def fuse_hard_sigmoid(
    g: RewriteBuilder, z: Value, low: Any, high: Any, c: Value | None = None, scaled: Op | None = None
) -> Value:
    """Clip(a * x + b, 0, c) / c => HardSigmoid(x, a / c, b / c), Clip(a * x + b, 0, 1) => HardSigmoid(x, a, b)"""
    require(low == 0 and isinstance(high, int | float) and high > 0, "the Clip has other bounds")
    require_dtype(z, HALF_OR_SINGLE)
    if c is None or scaled is None:
        require(high == 1, "the Clip has other bounds")
    else:
        matches = is_close(scalar_constant(c, z), 1 / high if scaled.type == "Mul" else high, z)
        require(matches, "the scale and the bounds do not match")
    x, a, b = affine_form(z)
    require(x is not z or c is not None, "the slope is 0")
    return g.HardSigmoid(x, alpha=a / high, beta=b / high)


@rule(
    lambda g, x, a, b: g.Mul(x, g.HardSigmoid(x, alpha=a, beta=b)),
    lambda g, x, z, c, scaled: g.one_of("Mul", "Div")(g.Mul(x, g.Clip(z, min=0.0, max=6.0)), g.const(c)) @ scaled,
    critical_values=(-3, 3),
    group="fuse-hard-activations",
)
def fuse_hard_swish(
    g: RewriteBuilder, x: Value, a: float = SIXTH, b: float = 0.5, z: Value | None = None, c: Value | None = None,
    scaled: Op | None = None,
) -> Value:  # fmt: skip
    """Div(x * Clip(x + 3, 0, 6), 6), Mul(x, HardSigmoid(x, 1/6, 1/2)) => HardSwish(x)"""
    require_dtype(x, HALF_OR_SINGLE)
    require(is_close(a, SIXTH, x) and is_close(b, 0.5, x), "the line has other coefficients")
    if z is not None and c is not None and scaled is not None:
        matches = is_close(scalar_constant(c, x), SIXTH if scaled.type == "Mul" else 6.0, x)
        require(matches, "the scale and the bounds do not match")
        require_polynomial(z, x, [3.0, 1.0])
    return g.HardSwish(x) if g.opset >= 14 or z is None else g.Mul(x, g.HardSigmoid(x, alpha=SIXTH, beta=0.5))


NO_INFINITE_SLOPE = conditional("no slope is infinite", assume=lambda g, a: g.Less(g.Abs(a), inf))
"""0 times infinity is not a number."""


@rule(lambda g, x, a: g.Max(x, g.Mul(x, g.const(a))), group="fuse-rectifiers")
def fuse_leaky_relu_of_max(g: RewriteBuilder, x: Value, a: Value) -> Value:
    """Max(x, a * x) => LeakyRelu(x, alpha=a), 0 <= a <= 1"""
    require_dtype(x, HALF_OR_SINGLE)
    alpha = scalar_constant(a, x)
    require(0 < alpha <= 1, "the slope is not between 0 and 1")
    return g.LeakyRelu(x, alpha=alpha)


@rule(
    lambda g, x, a, zero: g.Where(g.one_of("Less", "LessOrEqual")(x, g.const(zero)), g.Mul(x, a), x),
    lambda g, x, a, zero: g.Where(g.one_of("Greater", "GreaterOrEqual")(x, g.const(zero)), x, g.Mul(x, a)),
    lambda g, x, a: g.Sub(g.Relu(x), g.Mul(g.Relu(g.Neg(x)), a)),
    lambda g, x, a: g.Add(g.Relu(x), g.Mul(g.Neg(g.Relu(g.Neg(x))), a)),
    contract=NO_INFINITE_SLOPE,
    group="fuse-rectifiers",
)
def fuse_rectifier(g: RewriteBuilder, x: Value, a: Value, zero: Value | None = None) -> Value:
    """Where(x < 0, a * x, x), Where(x > 0, x, a * x), Relu(x) - a * Relu(-x) => LeakyRelu(x, alpha=a) or PRelu(x, a)"""
    return rectifier(g, x, a, zero)


@rule(lambda g, x, c: g.Add(g.Relu(x), g.Mul(g.Relu(g.Neg(x)), g.const(c))), group="fuse-rectifiers")
def fuse_prelu_of_negated_slope(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """Relu(x) + c * Relu(-x) => PRelu(x, -c)"""
    require_dtype(x, HALF_OR_SINGLE)
    require_broadcastable_to(c, x)
    require(bool(np.isfinite(c.const).all()), "a slope is infinite, and 0 times infinity is NaN")
    return rectifier(g, x, g.const(-c.const), None)


def rectifier(g: RewriteBuilder, x: Value, a: Value, zero: Value | None) -> Value:
    """`x`, and `a * x` where it is below zero: a LeakyRelu where the slope is one constant, else a PRelu."""
    require_dtype(x, HALF_OR_SINGLE)
    require(zero is None or scalar_constant(zero, x) == 0.0, "the knee is not at 0")
    if a.is_const and all(d == 1 for d in a.shape):
        return g.LeakyRelu(x, alpha=scalar_constant(a, x))
    require_broadcastable_to(a, x)
    g.costs.require_fast_kernel("PRelu", x, saved=2)
    return g.PRelu(x, a)


@rule(
    lambda g, x, n, zero: g.Where(g.one_of("Less", "LessOrEqual")(x, g.const(zero)), n, x),
    lambda g, x, n, zero: g.Where(g.one_of("Greater", "GreaterOrEqual")(x, g.const(zero)), x, n),
    group="fuse-rectifiers",
)
def fuse_elu(g: RewriteBuilder, x: Value, n: Value, zero: Value) -> Value:
    """Where(x < 0, a * (Exp(x) - 1), x), Where(x > 0, x, a * (Exp(x) - 1)) => Elu(x, alpha=a)"""
    e, a, b = affine_form(n)
    require(e.producer is not None and e.producer.type == "Exp" and e.producer.inputs == (x,), "no exponential")
    require_dtype(x, HALF_OR_SINGLE)
    require(scalar_constant(zero, x) == 0.0 and is_close(b, -a, x), "the curve does not go through 0")
    g.costs.require_fast_kernel("Elu", x, saved=3)
    return g.Elu(x, alpha=a)


@rule(
    lambda g, x, t, zero: g.Where(g.Greater(x, g.const(t)), x, g.const(zero)), contract=EXACT, group="fuse-rectifiers"
)
def fuse_thresholded_relu(g: RewriteBuilder, x: Value, t: Value, zero: Value) -> Value:
    """Where(x > t, x, 0) => ThresholdedRelu(x, alpha=t), where t >= 0"""
    require_dtype(x, HALF_OR_SINGLE)
    require(scalar_constant(zero, x) == 0.0 and not np.signbit(zero.const).any(), "the other branch is not 0")
    alpha = scalar_constant(t, x)
    require(alpha >= 0, "zeros pass, and onnxruntime 1.31 gives 0 for -0 in some Wheres")
    return g.ThresholdedRelu(x, alpha=alpha)
