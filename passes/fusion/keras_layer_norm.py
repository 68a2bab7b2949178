"""LayerNormalization as Keras spells it: one line a row, its slope and offset computed from mean and variance."""

from __future__ import annotations

from ...core import ROUNDING, Build, Op, RulePass, Value, require, rule
from ..support.dtypes import HALF_OR_SINGLE
from ..support.operand_queries import operand, refilled
from .norm_weights import weight
from .norms import LAYER_NORM, extents, first_axis, positive
from .polynomials import require_kind, require_number, require_polynomial
from .producers import made_by


@rule(lambda g, x, k, mu, beta: g.Add(g.Mul(x, k), g.Sub(g.const(beta), g.Mul(mu, k))), contract=ROUNDING)
def fuse_norm_of_line(g: Build, x: Value, k: Value, mu: Value, beta: Value) -> Value:
    """Add(x * k, beta - mean * k), k = gamma / Sqrt(variance + epsilon) => LayerNormalization(x, gamma, beta)"""
    return line_norm(g, x, k, mu, beta)


@rule(lambda g, x, k, mu, beta: g.Add(g.Mul(x, k), g.Add(g.Mul(g.Neg(mu), k), g.const(beta))), contract=ROUNDING)
def fuse_norm_of_negated_line(g: Build, x: Value, k: Value, mu: Value, beta: Value) -> Value:
    """Add(x * k, -mean * k + beta), k = gamma / Sqrt(variance + epsilon) => LayerNormalization(x, gamma, beta)"""
    return line_norm(g, x, k, mu, beta)


def line_norm(g: Build, x: Value, k: Value, mu: Value, beta: Value) -> Value:
    """The normalization of `x`, whose mean is `mu` and whose slope is `k`."""
    require(g.opset >= LAYER_NORM, f"LayerNormalization came with opset {LAYER_NORM}")
    require_kind(x, HALF_OR_SINGLE)
    mean = made_by(mu, "ReduceMean")
    require(operand(mean) is x, f"{mu.name} is the mean of another value")
    axis = first_axis(x, mean)
    inverse, gamma = slope(k)
    shifted = inverse_deviation(inverse, x)
    variance, eps = addends(shifted)
    require_variance(variance, x, mu, axis)
    dims = extents(x, axis)
    weights = [refilled(g, weight(c, dims, x), x) for c in (gamma, beta)]
    epsilon = positive(eps, variance.outputs[0])
    return g.LayerNormalization(x, *weights, axis=axis - x.rank, epsilon=epsilon)


def slope(k: Value) -> tuple[Value, Value]:
    """The inverse deviation and the constant gamma whose product is `k`."""
    a, b = (operand(made_by(k, "Mul"), i) for i in (0, 1))
    require(a.is_const != b.is_const, f"{k.name} has no constant weights")
    return (b, a) if a.is_const else (a, b)


def inverse_deviation(inverse: Value, x: Value) -> Op:
    """The Add of variance and epsilon, over the root of which `inverse` is 1."""
    op = made_by(inverse, "Reciprocal", "Div")
    if op.type == "Div":
        require_number(operand(op), 1.0, x)
    return made_by(operand(made_by(operand(op, len(op.inputs) - 1), "Sqrt")), "Add")


def addends(shifted: Op) -> tuple[Op, Value]:
    """The op that gives the variance, and the epsilon added to it."""
    a, b = operand(shifted), operand(shifted, 1)
    variance, eps = (b, a) if a.is_const else (a, b)
    return made_by(variance, "ReduceMean"), eps


def require_variance(variance: Op, x: Value, mu: Value, axis: int) -> None:
    """`variance` is the mean of the squares of x - mu."""
    squares = operand(variance)
    d = operand(made_by(squares, "Mul", "Pow"))
    require(made_by(d, "Sub").inputs == (x, mu), f"{d.name} is not centred")
    require_polynomial(squares, d, [0.0, 0.0, 1.0])
    require(first_axis(d, variance) == axis, "mean and variance are along other axes")


FUSE_AFFINE_NORM = RulePass("fuse-affine-norm", (fuse_norm_of_line, fuse_norm_of_negated_line))
