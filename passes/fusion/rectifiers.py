"""Fusion of rectifiers: LeakyRelu, PRelu, Elu, ThresholdedRelu."""

from __future__ import annotations

import numpy as np

from ...core import EXACT, Build, RulePass, Value, conditional, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..support.operand_queries import require_broadcastable_to
from .polynomials import affine_form, is_close, require_dtype, scalar_constant

NO_INFINITE_SLOPE = conditional("no slope is infinite")
"""0 times infinity is no number."""


@rule(lambda g, x, a: g.Max(x, g.Mul(x, g.const(a))))
def fuse_leaky_relu_of_max(g: Build, x: Value, a: Value) -> Value:
    """Max(x, a * x) => LeakyRelu(x, alpha=a), 0 <= a <= 1"""
    require_dtype(x, HALF_OR_SINGLE)
    alpha = scalar_constant(a, x)
    require(0 < alpha <= 1, "the slope is not between 0 and 1")
    return g.LeakyRelu(x, alpha=alpha)


@rule(
    lambda g, x, a, zero: g.Where(g.one_of("Less", "LessOrEqual")(x, g.const(zero)), g.Mul(x, a), x),
    contract=NO_INFINITE_SLOPE,
)
def fuse_rectifier_of_negatives(g: Build, x: Value, a: Value, zero: Value) -> Value:
    """Where(x < 0, a * x, x) => LeakyRelu(x, alpha=a), or PRelu(x, a)"""
    return rectifier(g, x, a, zero)


@rule(
    lambda g, x, a, zero: g.Where(g.one_of("Greater", "GreaterOrEqual")(x, g.const(zero)), x, g.Mul(x, a)),
    contract=NO_INFINITE_SLOPE,
)
def fuse_rectifier_of_positives(g: Build, x: Value, a: Value, zero: Value) -> Value:
    """Where(x > 0, x, a * x) => LeakyRelu(x, alpha=a), or PRelu(x, a)"""
    return rectifier(g, x, a, zero)


@rule(lambda g, x, a: g.Sub(g.Relu(x), g.Mul(g.Relu(g.Neg(x)), a)), contract=NO_INFINITE_SLOPE)
def fuse_prelu_of_difference(g: Build, x: Value, a: Value) -> Value:
    """Relu(x) - a * Relu(-x) => PRelu(x, a)"""
    return rectifier(g, x, a, None)


@rule(lambda g, x, c: g.Add(g.Relu(x), g.Mul(g.Relu(g.Neg(x)), g.const(c))))
def fuse_prelu_of_negated_slope(g: Build, x: Value, c: Value) -> Value:
    """Relu(x) + c * Relu(-x) => PRelu(x, -c)"""
    require_dtype(x, HALF_OR_SINGLE)
    require_broadcastable_to(c, x)
    require(bool(np.isfinite(c.const).all()), "a slope is infinite, and 0 times infinity is NaN")
    return rectifier(g, x, g.const(-c.const), None)


@rule(lambda g, x, a: g.Add(g.Relu(x), g.Mul(g.Neg(g.Relu(g.Neg(x))), a)), contract=NO_INFINITE_SLOPE)
def fuse_prelu_of_negated_part(g: Build, x: Value, a: Value) -> Value:
    """Relu(x) + a * -Relu(-x) => PRelu(x, a)"""
    return rectifier(g, x, a, None)


def rectifier(g: Build, x: Value, a: Value, zero: Value | None) -> Value:
    """`x`, and `a * x` where it is below zero: a LeakyRelu where the slope is one constant, else a PRelu."""
    require_dtype(x, HALF_OR_SINGLE)
    require(zero is None or scalar_constant(zero, x) == 0.0, "the knee is not at 0")
    if a.is_const and all(d == 1 for d in a.shape):
        return g.LeakyRelu(x, alpha=scalar_constant(a, x))
    require_broadcastable_to(a, x)
    return g.PRelu(x, a)


@rule(lambda g, x, n, zero: g.Where(g.one_of("Less", "LessOrEqual")(x, g.const(zero)), n, x))
def fuse_elu_of_negatives(g: Build, x: Value, n: Value, zero: Value) -> Value:
    """Where(x < 0, a * (Exp(x) - 1), x) => Elu(x, alpha=a)"""
    return elu(g, x, n, zero)


@rule(lambda g, x, n, zero: g.Where(g.one_of("Greater", "GreaterOrEqual")(x, g.const(zero)), x, n))
def fuse_elu_of_positives(g: Build, x: Value, n: Value, zero: Value) -> Value:
    """Where(x > 0, x, a * (Exp(x) - 1)) => Elu(x, alpha=a)"""
    return elu(g, x, n, zero)


def elu(g: Build, x: Value, n: Value, zero: Value) -> Value:
    """`x`, and `n` where it is below zero, which is a multiple of Exp(x) - 1."""
    e, a, b = affine_form(n)
    require(e.producer is not None and e.producer.type == "Exp" and e.producer.inputs == (x,), "no exponential")
    require_dtype(x, HALF_OR_SINGLE)
    require(scalar_constant(zero, x) == 0.0 and is_close(b, -a, x), "the curve does not go through 0")
    return g.Elu(x, alpha=a)


@rule(lambda g, x, t, zero: g.Where(g.Greater(x, g.const(t)), x, g.const(zero)), contract=EXACT)
def fuse_thresholded_relu(g: Build, x: Value, t: Value, zero: Value) -> Value:
    """Where(x > t, x, 0) => ThresholdedRelu(x, alpha=t)"""
    require_dtype(x, HALF_OR_SINGLE)
    require(scalar_constant(zero, x) == 0.0 and not np.signbit(zero.const).any(), "the other branch is not 0")
    return g.ThresholdedRelu(x, alpha=scalar_constant(t, x))


FUSE_RECTIFIERS = RulePass("fuse-rectifiers", (
    fuse_leaky_relu_of_max, fuse_rectifier_of_negatives, fuse_rectifier_of_positives, fuse_prelu_of_difference,
    fuse_prelu_of_negated_part, fuse_prelu_of_negated_slope, fuse_elu_of_negatives, fuse_elu_of_positives,
    fuse_thresholded_relu,
))  # fmt: skip
