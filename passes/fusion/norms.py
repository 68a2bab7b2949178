"""Fusion of LayerNormalization and RMSNormalization.

What is recognised is normalized without weights; a Mul and an Add that follow become weights in `norm_weights`.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...core import Build, Declined, Op, RulePass, Value, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..support.operand_queries import has_n_consumers, kept_reduced_axes, operand, required_producer
from .polynomials import require_dtype, require_polynomial, require_scalar, scalar_constant

LAYER_NORM_OPSET = 17  # the opset that brought LayerNormalization
RMS_NORM_OPSET = 23  # and RMSNormalization
MAX_WEIGHTS = 1 << 16


@rule(lambda g, d, q, eps, mean, axes=None: g.Div(d, g.Sqrt(g.Add(g.ReduceMean(q, axes) @ mean, g.const(eps)))))
def fuse_norm_of_quotient(g: Build, d: Value, q: Value, eps: Value, mean: Op) -> Value:
    """Div(d, Sqrt(ReduceMean(d * d) + epsilon)) => RMSNormalization(d), or LayerNormalization(x), d = x - mean"""
    return build_norm(g, d, q, eps, mean)


@rule(
    lambda g, d, q, eps, mean, axes=None: g.Mul(
        d, g.Reciprocal(g.Sqrt(g.Add(g.ReduceMean(q, axes) @ mean, g.const(eps))))
    )
)
def fuse_norm_of_reciprocal(g: Build, d: Value, q: Value, eps: Value, mean: Op) -> Value:
    """Mul(d, Reciprocal(Sqrt(ReduceMean(d * d) + epsilon))) => RMSNormalization(d), or LayerNormalization(x)"""
    return build_norm(g, d, q, eps, mean)


@rule(
    lambda g, d, q, eps, one, mean, axes=None: g.Mul(
        d, g.Div(g.const(one), g.Sqrt(g.Add(g.ReduceMean(q, axes) @ mean, g.const(eps))))
    )
)
def fuse_norm_of_inverse(g: Build, d: Value, q: Value, eps: Value, one: Value, mean: Op) -> Value:
    """Mul(d, 1 / Sqrt(ReduceMean(d * d) + epsilon)) => RMSNormalization(d), or LayerNormalization(x)"""
    require_scalar(one, 1.0, d)
    return build_norm(g, d, q, eps, mean)


@rule(
    lambda g, d, q, eps, p, mean, axes=None: g.Mul(
        d, g.Pow(g.Add(g.ReduceMean(q, axes) @ mean, g.const(eps)), g.const(p))
    )
)
def fuse_norm_of_power(g: Build, d: Value, q: Value, eps: Value, p: Value, mean: Op) -> Value:
    """Mul(d, Pow(ReduceMean(d * d) + epsilon, -0.5)) => RMSNormalization(d), or LayerNormalization(x)"""
    require_scalar(p, -0.5, d)
    return build_norm(g, d, q, eps, mean)


def build_norm(g: Build, d: Value, q: Value, eps: Value, mean: Op) -> Value:
    """Build the normalization of `d`, of whose squares `q` the output of `mean` is the mean."""
    require(g.opset >= LAYER_NORM_OPSET, f"before opset {LAYER_NORM_OPSET}, there is no LayerNormalization")
    require_dtype(d, HALF_OR_SINGLE)  # epsilon is a 32-bit float
    require_polynomial(q, d, [0.0, 0.0, 1.0])
    epsilon = positive_epsilon(eps, mean.outputs[0])
    axis = first_normalized_axis(d, mean)
    x = d if g.opset >= RMS_NORM_OPSET and not is_centred(d, axis) else input_of_centring(d, axis)
    dims = normalized_extents(x, axis)
    require(prod(dims) <= MAX_WEIGHTS, "the new weights would be too large")
    ones = g.const(np.ones(dims), like=x)
    axis -= x.rank
    if x is d:
        return g.RMSNormalization(x, ones, axis=axis, epsilon=epsilon)
    return g.LayerNormalization(x, ones, axis=axis, epsilon=epsilon)


def positive_epsilon(eps: Value, variance: Value) -> float:
    """The epsilon added to `variance`; without one, each spelling does something else where that is 0."""
    epsilon = scalar_constant(eps, variance)
    require(epsilon > 0, f"{eps.name} is not above 0")
    return epsilon


def first_normalized_axis(x: Value, mean: Op) -> int:
    """The axis from which on `mean` takes all axes of `x` and keeps their dims."""
    over = kept_reduced_axes(x, mean)
    require(over == list(range(over[0], x.rank)), f"axes {over} are not the last ones")
    return over[0]


def normalized_extents(x: Value, axis: int) -> tuple[int, ...]:
    """The extents that `x` has from `axis` on, all of them known and at least 1."""
    dims = tuple(d for d in x.shape[axis:] if isinstance(d, int) and d > 0)
    require(len(dims) == x.rank - axis, "the number of normalized elements is unknown")
    return dims


def input_of_centring(d: Value, axis: int) -> Value:
    """The x of which `d` is x minus its mean from `axis` on, for its square and its quotient alone."""
    sub = required_producer(d, "Sub")
    x, mean = operand(sub), required_producer(operand(sub, 1), "ReduceMean")
    require(operand(mean) is x and first_normalized_axis(x, mean) == axis, f"{d.name} is not centred by its mean")
    require(has_n_consumers(d, 2), f"{d.name} is read elsewhere")
    return x


def is_centred(d: Value, axis: int) -> bool:
    """Whether `input_of_centring` has an answer."""
    try:
        input_of_centring(d, axis)
    except Declined:
        return False
    return True


FUSE_NORM = RulePass(
    "fuse-norm", (fuse_norm_of_quotient, fuse_norm_of_reciprocal, fuse_norm_of_inverse, fuse_norm_of_power)
)
