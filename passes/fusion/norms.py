"""Fusion of normalizations, and of scales, offsets and casts into them.

`fuse-norm`: Fusion of LayerNormalization and RMSNormalization.
`fuse-keras-layer-norm`: Fusion of Keras's LayerNormalization: a scale and an offset computed from mean and variance.
`fuse-norm-weights`: Fusion of scales, offsets and casts into normalizations.
`fuse-lp-norm`: Fusion of LpNormalization.
`keep-norms-apart`: Sums that onnxruntime does not fuse into SkipLayerNormalization, which is slower and less exact.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from ...core import EXACT, Op, RewriteBuilder, Value, broadcasts_to, conditional, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..support.operand_queries import (
    Array,
    constant_binary,
    downcast_constant,
    has_n_consumers,
    kept_reduced_axes,
    operand,
    require_no_rounding,
    required_producer,
    same_shape,
    sum_of_constants,
    uniform_value,
    unless_declined,
)
from .polynomials import require_dtype, require_polynomial, require_scalar, scalar_constant

MAX_WEIGHTS = 1 << 16


def shifted_mean(g: Any, q: Any, eps: Any, mean: Any, axes: Any) -> Any:
    """The pattern of ReduceMean(q) + epsilon."""
    return g.Add(g.ReduceMean(q, axes) @ mean, g.const(eps))


@rule(
    lambda g, d, q, eps, mean, axes=None: g.Div(d, g.Sqrt(shifted_mean(g, q, eps, mean, axes))),
    lambda g, d, q, eps, mean, axes=None: g.Mul(d, g.Reciprocal(g.Sqrt(shifted_mean(g, q, eps, mean, axes)))),
    lambda g, d, q, eps, mean, axes=None: g.Mul(d, g.Div(1.0, g.Sqrt(shifted_mean(g, q, eps, mean, axes)))),
    lambda g, d, q, eps, mean, axes=None: g.Mul(d, g.Pow(shifted_mean(g, q, eps, mean, axes), -0.5)),
    group="fuse-norm",
)
def fuse_norm(g: RewriteBuilder, d: Value, q: Value, eps: Value, mean: Op) -> Value:
    """D / Sqrt(ReduceMean(d * d) + epsilon) => RMSNormalization(d), or LayerNormalization(x), d = x - mean"""
    require_dtype(d, HALF_OR_SINGLE)  # epsilon is a 32-bit float
    require_polynomial(q, d, [0.0, 0.0, 1.0])
    epsilon = positive_epsilon(eps, mean.outputs[0])
    axis = first_normalized_axis(d, mean)
    centred = unless_declined(input_of_centring, d, axis)
    x = d if centred is None else centred
    dims = normalized_extents(x, axis)
    require(prod(dims) <= MAX_WEIGHTS, "the new weights would be too large")
    normalization = g.RMSNormalization if x is d else g.LayerNormalization
    return normalization(x, g.const(np.ones(dims), like=x), axis=axis - x.rank, epsilon=epsilon)


def positive_epsilon(eps: Value, variance: Value) -> float:
    """The epsilon added to `variance`; without one, each spelling does something else where that is 0."""
    epsilon = scalar_constant(eps, variance)
    require(epsilon > 0, f"{eps.name} is not above 0")
    return epsilon


def first_normalized_axis(x: Value, mean: Op) -> int:
    """The axis from which on `mean` takes all axes of `x` and keeps their dims."""
    over = kept_reduced_axes(x, mean)
    require(over == list(range(over[0], x.rank)), f"axes {over} are not the last axes")
    return over[0]


def normalized_extents(x: Value, axis: int) -> tuple[int, ...]:
    """The extents that `x` has from `axis` on, all known and at least 1."""
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


@rule(
    lambda g, x, k, mu, beta: g.Add(g.Mul(x, k), g.Sub(g.const(beta), g.Mul(mu, k))),
    lambda g, x, k, mu, beta: g.Add(g.Mul(x, k), g.Add(g.Mul(g.Neg(mu), k), g.const(beta))),
    group="fuse-keras-layer-norm",
)
def fuse_layer_norm_of_scale_and_offset(g: RewriteBuilder, x: Value, k: Value, mu: Value, beta: Value) -> Value:
    """Add(x * k, beta - mean * k), k = gamma / Sqrt(variance + epsilon) => LayerNormalization(x, gamma, beta)"""
    require_dtype(x, HALF_OR_SINGLE)
    mean = required_producer(mu, "ReduceMean")
    require(operand(mean) is x, f"{mu.name} is the mean of another value")
    axis = first_normalized_axis(x, mean)
    inverse, gamma, _ = constant_binary(required_producer(k, "Mul"))
    root = required_producer(inverse, "Reciprocal", "Div")
    if root.type == "Div":
        require_scalar(operand(root), 1.0, x)
    shifted = required_producer(operand(required_producer(operand(root, len(root.inputs) - 1), "Sqrt")), "Add")
    mean_of_squares, eps, _ = constant_binary(shifted)
    variance = required_producer(mean_of_squares, "ReduceMean")
    squares = operand(variance)
    d = operand(required_producer(squares, "Mul", "Pow"))
    require(required_producer(d, "Sub").inputs == (x, mu), f"{d.name} is not centred by its mean")
    require_polynomial(squares, d, [0.0, 0.0, 1.0])
    require(first_normalized_axis(d, variance) == axis, "mean and variance are along other axes")
    dims = normalized_extents(x, axis)
    weights = [downcast_constant(g, weight_array(c, dims, x), x) for c in (gamma, beta)]
    return g.LayerNormalization(x, *weights, axis=axis - x.rank, epsilon=positive_epsilon(eps, mean_of_squares))


@rule(
    lambda g, x, s, c, op, b=None: g.Mul(g.one_of("LayerNormalization", "RMSNormalization")(x, s, b) @ op, c),
    group="fuse-norm-weights",
)
def scale_norm(g: RewriteBuilder, x: Value, s: Value, c: Value, op: Op, b: Value | None) -> Value:
    """Mul(LayerNormalization(x, s, b), c) => LayerNormalization(x, s * c, b * c), and so for RMSNormalization"""
    dims = weight_dims(x, s, op)
    if not c.is_const:
        require(b is None and c.shape == dims and c.dtype == s.dtype, f"{c.name} is not a weight")
        require(uniform_value(s) == 1, "the normalization has a scale already")
        return norm_with_weights(g, op, x, c, None)
    require_no_rounding(b)
    factor = weight_array(c, dims, x)
    shift = None if b is None else downcast_constant(g, weight_array(b, dims, x) * factor, x)
    return norm_with_weights(g, op, x, downcast_constant(g, weight_array(s, dims, x) * factor, x), shift)


@rule(lambda g, x, s, c, op, b=None: g.Add(g.LayerNormalization(x, s, b) @ op, c), group="fuse-norm-weights")
def shift_norm(g: RewriteBuilder, x: Value, s: Value, c: Value, op: Op, b: Value | None) -> Value:
    """Add(LayerNormalization(x, s, b), c) => LayerNormalization(x, s, b + c)"""
    dims = weight_dims(x, s, op)
    if not c.is_const:
        require(b is None and c.shape == dims, f"{c.name} is not a bias")
        return norm_with_weights(g, op, x, s, c)
    require_no_rounding(b, c)
    shift = weight_array(c, dims, x)
    shift = shift if b is None else sum_of_constants(x, shift, weight_array(b, dims, x))
    return norm_with_weights(g, op, x, s, downcast_constant(g, shift, x))


@rule(
    lambda g, x, s, up, op, down: (
        g.Cast(g.one_of("LayerNormalization", "RMSNormalization")(g.Cast(x) @ up, s) @ op) @ down
    ),
    group="fuse-norm-weights",
)
def drop_casts_around_norm(g: RewriteBuilder, x: Value, s: Value, up: Op, op: Op, down: Op) -> Value:
    """Cast(LayerNormalization(Cast(x, to=float)), to=float16) => LayerNormalization(x), stash_type=float"""
    require(up.attr("to") == TensorProto.FLOAT and x.dtype == TensorProto.FLOAT16, "the inner type is not more precise")
    require(down.attr("to") == x.dtype and op.attr("stash_type") == TensorProto.FLOAT, "the casts have other types")
    require(uniform_value(s) == 1, "the weights have a higher precision")
    return norm_with_weights(g, op, x, g.const(s.const, like=x), None)


def weight_dims(x: Value, s: Value, op: Op) -> tuple[int, ...]:
    """The extents that a normalization runs over, which its weights have to have."""
    require(op.outputs[0].dtype == x.dtype == s.dtype, "the types differ")
    dims = normalized_extents(x, op.attr("axis") % x.rank)
    require(s.shape == dims, "the weights would be broadcast")
    return dims


def weight_array(c: Value, dims: tuple[int, ...], x: Value) -> Array:
    """A constant as weights of extents `dims`, in float64; declines where it varies along other axes of `x`."""
    start = max(len(c.shape) - len(dims), 0)
    lead, tail = c.shape[:start], c.shape[start:]
    require(c.is_const and len(c.shape) <= x.rank, f"{c.name} is not a constant, or adds dims")
    require(all(d == 1 for d in lead) and broadcasts_to(tail, dims), f"{c.name} varies along other axes")
    return np.broadcast_to(c.const.astype(np.float64).reshape(c.static_shape[start:]), dims)


def norm_with_weights(g: RewriteBuilder, op: Op, x: Value, s: Value, b: Value | None) -> Value:
    """The same normalization of `x`, with other weights."""
    return getattr(g, op.type)(x, s, b, **op.attrs)


MAX_EPSILON = 1e-6  # the largest substitute for a length of 0


def norm_of(g: Any, x: Any, axes: Any, length: Any) -> Any:
    """The pattern of a norm of `x`."""
    return g.one_of("ReduceL1", "ReduceL2")(x, axes) @ length


NO_LENGTH_OF_ZERO = conditional("no length is 0", assume=lambda g, length: g.Greater(length, 0))


@rule(
    lambda g, x, length, axes=None: g.Div(x, norm_of(g, x, axes, length)),
    contract=NO_LENGTH_OF_ZERO,
    group="fuse-lp-norm",
)
def fuse_lp_norm(g: RewriteBuilder, x: Value, length: Op) -> Value:
    """Div(x, ReduceL2(x)) => LpNormalization(x, p=2), and so for ReduceL1"""
    return lp_norm(g, x, length)


@rule(
    lambda g, x, length, low, axes=None: g.Div(x, g.Clip(norm_of(g, x, axes, length), min=low, max=None)),
    lambda g, x, length, low, axes=None: g.Div(x, g.Max(norm_of(g, x, axes, length), g.const(low))),
    lambda g, x, length, low, axes=None: g.Div(x, g.Sqrt(g.Max(g.ReduceSumSquare(x, axes) @ length, g.const(low)))),
    lambda g, x, length, low, axes=None: g.Mul(
        x, g.Reciprocal(g.Sqrt(g.Max(g.ReduceSumSquare(x, axes) @ length, g.const(low))))
    ),
    contract=conditional("no length is below its lower bound", assume=lambda g, length, low: g.Greater(length, low)),
    group="fuse-lp-norm",
)
def fuse_bounded_lp_norm(g: RewriteBuilder, x: Value, length: Op, low: Any) -> Value:
    """Div(x, Max(ReduceL2(x), c)), Div(x, Sqrt(Max(ReduceSumSquare(x), c))) => LpNormalization(x, p=2); L1 too"""
    bound = scalar_constant(low, length.outputs[0]) if isinstance(low, Value) else low
    most = MAX_EPSILON**2 if length.type == "ReduceSumSquare" else MAX_EPSILON
    require(isinstance(bound, float) and 0 <= bound <= most, "the bound is too large")
    return lp_norm(g, x, length)


def lp_norm(g: RewriteBuilder, x: Value, length: Op) -> Value:
    """Build the normalization of `x` by its norm `length` along one axis."""
    require_dtype(x, HALF_OR_SINGLE)
    axes = kept_reduced_axes(x, length)
    require(len(axes) == 1, "the norm is over several axes")
    if axes[0] < x.rank - 1:
        g.costs.require_fast_kernel("LpNormalization", x, saved=1)
    return g.LpNormalization(x, axis=axes[0], p=1 if length.type == "ReduceL1" else 2)


@rule(lambda g, x, b, skip, total: g.Add(g.Add(x, g.const(b)), skip) @ total, group="keep-norms-apart")
def add_bias_after_skip(g: RewriteBuilder, x: Value, b: Value, skip: Value, total: Op) -> Value:
    """LayerNormalization((x + b) + skip) => LayerNormalization((x + skip) + b), which onnxruntime does not fuse"""
    require_norm_behind(total, x, skip)
    require_no_rounding(b)
    require(b.rank == 1 and same_shape(x.shape, skip.shape), f"{x.name} and {skip.name} may differ in shape")
    return g.Add(g.Add(x, skip), b)


@rule(lambda g, x, skip, total: g.Add(x, skip) @ total, contract=EXACT, group="keep-norms-apart")
def sum_before_norm(g: RewriteBuilder, x: Value, skip: Value, total: Op) -> Value:
    """LayerNormalization(x + skip) => LayerNormalization(Sum(x, skip)), which onnxruntime does not fuse"""
    require_norm_behind(total, x, skip)
    is_fused = total.outputs[0].dtype == TensorProto.FLOAT and total.outputs[0].rank == 3
    require(is_fused, "onnxruntime fuses sums of three dims in single precision only")
    return g.Sum(x, skip)


def require_norm_behind(total: Op, x: Value, skip: Value) -> None:
    """Decline a sum that no LayerNormalization reads, or of a constant, which onnxruntime takes for a bias."""
    readers = total.outputs[0].consumers
    require(any(r.type == "LayerNormalization" and not r.domain for r in readers), "no layer normalization reads it")
    require(not x.is_const and not skip.is_const, f"{x.name} or {skip.name} is constant")
