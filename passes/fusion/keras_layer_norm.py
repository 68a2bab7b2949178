"""Fusion of Keras's LayerNormalization: a scale and an offset computed from mean and variance."""

from __future__ import annotations

from ...core import Build, Op, RulePass, Value, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..support.operand_queries import downcast_constant, operand, required_producer
from .norm_weights import weight_array
from .norms import LAYER_NORM_OPSET, first_normalized_axis, normalized_extents, positive_epsilon
from .polynomials import require_dtype, require_polynomial, require_scalar


@rule(lambda g, x, k, mu, beta: g.Add(g.Mul(x, k), g.Sub(g.const(beta), g.Mul(mu, k))))
def fuse_layer_norm_of_scale_and_offset(g: Build, x: Value, k: Value, mu: Value, beta: Value) -> Value:
    """Add(x * k, beta - mean * k), k = gamma / Sqrt(variance + epsilon) => LayerNormalization(x, gamma, beta)"""
    return scale_and_offset_norm(g, x, k, mu, beta)


@rule(lambda g, x, k, mu, beta: g.Add(g.Mul(x, k), g.Add(g.Mul(g.Neg(mu), k), g.const(beta))))
def fuse_layer_norm_of_scale_and_negated_mean(g: Build, x: Value, k: Value, mu: Value, beta: Value) -> Value:
    """Add(x * k, -mean * k + beta), k = gamma / Sqrt(variance + epsilon) => LayerNormalization(x, gamma, beta)"""
    return scale_and_offset_norm(g, x, k, mu, beta)


def scale_and_offset_norm(g: Build, x: Value, k: Value, mu: Value, beta: Value) -> Value:
    """The normalization of `x`, whose mean is `mu` and whose slope is `k`."""
    require(g.opset >= LAYER_NORM_OPSET, f"before opset {LAYER_NORM_OPSET}, there is no LayerNormalization")
    require_dtype(x, HALF_OR_SINGLE)
    mean = required_producer(mu, "ReduceMean")
    require(operand(mean) is x, f"{mu.name} is the mean of another value")
    axis = first_normalized_axis(x, mean)
    inverse, gamma = inverse_deviation_and_gamma(k)
    shifted = variance_plus_epsilon(inverse, x)
    variance, eps = variance_and_epsilon(shifted)
    require_variance(variance, x, mu, axis)
    dims = normalized_extents(x, axis)
    weights = [downcast_constant(g, weight_array(c, dims, x), x) for c in (gamma, beta)]
    epsilon = positive_epsilon(eps, variance.outputs[0])
    return g.LayerNormalization(x, *weights, axis=axis - x.rank, epsilon=epsilon)


def inverse_deviation_and_gamma(k: Value) -> tuple[Value, Value]:
    """The inverse deviation and the constant gamma whose product is `k`."""
    a, b = (operand(required_producer(k, "Mul"), i) for i in (0, 1))
    require(a.is_const != b.is_const, f"{k.name} has no constant weights")
    return (b, a) if a.is_const else (a, b)


def variance_plus_epsilon(inverse: Value, x: Value) -> Op:
    """The Add of variance and epsilon, over the root of which `inverse` is 1."""
    op = required_producer(inverse, "Reciprocal", "Div")
    if op.type == "Div":
        require_scalar(operand(op), 1.0, x)
    return required_producer(operand(required_producer(operand(op, len(op.inputs) - 1), "Sqrt")), "Add")


def variance_and_epsilon(shifted: Op) -> tuple[Op, Value]:
    """The op that gives the variance, and the epsilon added to it."""
    a, b = operand(shifted), operand(shifted, 1)
    variance, eps = (b, a) if a.is_const else (a, b)
    return required_producer(variance, "ReduceMean"), eps


def require_variance(variance: Op, x: Value, mu: Value, axis: int) -> None:
    """`variance` is the mean of the squares of x - mu."""
    squares = operand(variance)
    d = operand(required_producer(squares, "Mul", "Pow"))
    require(required_producer(d, "Sub").inputs == (x, mu), f"{d.name} is not centred by its mean")
    require_polynomial(squares, d, [0.0, 0.0, 1.0])
    require(first_normalized_axis(d, variance) == axis, "mean and variance are along other axes")


FUSE_KERAS_LAYER_NORM = RulePass(
    "fuse-keras-layer-norm", (fuse_layer_norm_of_scale_and_offset, fuse_layer_norm_of_scale_and_negated_mean)
)
