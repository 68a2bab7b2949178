"""Affine ops, `k * x + c` with constant k and c, and patterns that onnxruntime fuses."""

from __future__ import annotations

import numpy as np

from ...core import MatchFailure, Op, Value, require
from ..support.operand_queries import (
    Array,
    require_broadcastable_to,
    require_no_rounding,
    require_numpy_broadcasting,
    uniform_value,
    values_along_axis,
    varying_inputs,
)
from .convolution import per_channel

ARITHMETIC = ("Add", "Sub", "Mul", "Div")
SCALE_OPS = ("Mul", "Div", "Neg")
AFFINE_OPS = (*ARITHMETIC, "Neg", "BatchNormalization")
Affine = tuple[Array, Array]
"""The k and c of `k * x + c`, in float64; one number each, or one for each channel."""

ONE, ZERO = np.ones(1), np.zeros(1)


def other_operand(op: Op, x: Value) -> Value:
    """The operand of a binary op besides `x`."""
    found = [v for v in op.inputs if v is not None and v is not x]
    require(len(op.inputs) == 2 and len(found) == 1, f"{op.label} is not of {x.name} and another value")
    return found[0]


def constant_operand(op: Op, x: Value) -> Value:
    """The operand of a binary op besides `x`, which is constant."""
    c = other_operand(op, x)
    require(c.is_const, f"{c.name} is not constant")
    return c


def required_affine(op: Op, x: Value, rank: int, channels: int | None) -> Affine:
    """The k and c of an op of AFFINE_OPS on `x`, of that rank and, if it is known, number of channels."""
    if op.type == "Neg":
        return -ONE, ZERO
    if op.type == "BatchNormalization":
        return scale_and_shift(op, channels)
    require_numpy_broadcasting(op.version)
    c = constant_operand(op, x)
    numbers = per_channel(c, rank, 1 if channels is None else channels)
    require(bool(np.isfinite(numbers).all()), f"{c.name} is not finite")
    if op.type in {"Add", "Sub"}:
        require_no_rounding(c)
    if op.type == "Add":
        return ONE, numbers
    if op.type == "Sub":
        return (ONE, -numbers) if op.inputs[0] is x else (-ONE, numbers)
    return factors(op, x, numbers), ZERO


def scale_and_shift(bn: Op, channels: int | None) -> Affine:
    """The k and c of a BatchNormalization in inference form, one number for each of `channels`, if that is known."""
    require(bn.version >= 7, "before opset 7 the statistics may be updated in place")
    require(not bn.attr("training_mode", 0), "in training mode the statistics come from the data")
    require(bn.attr("spatial", 1) == 1, "the statistics are per element, not per channel")
    # Before opset 14 the optional outputs mark a training op (BatchNormalization-9, Outputs case 1).
    require(not any(v.name for v in bn.outputs[1:]), "it also gives statistics, as in training mode")
    gamma, beta, mu, sigma2 = (v.const.astype(np.float64) for v in bn.inputs[1:5] if v is not None)
    require(gamma.ndim == 1 and gamma.shape == beta.shape == mu.shape == sigma2.shape, "the statistics differ in shape")
    require(channels in {None, gamma.size}, "the statistics do not fit the weights")
    k = gamma / np.sqrt(sigma2 + bn.attr("epsilon", 1e-5))
    return k, beta - mu * k


def required_factors(op: Op, x: Value) -> Array:
    """The factors by which an op of SCALE_OPS scales the last axis of `x`: one, or one for each index; in float64."""
    if op.type == "Neg":
        return -ONE
    c = constant_operand(op, x)
    if not c.shape:
        return factors(op, x, c.const.reshape(1).astype(np.float64))
    require_broadcastable_to(c, x)
    return factors(op, x, values_along_axis(c, x.rank, -1))


def required_factor(op: Op, x: Value) -> float:
    """The finite number, not 0, by which an op of SCALE_OPS scales all of `x`."""
    if op.type == "Neg":
        return -1.0
    c = constant_operand(op, x)
    require_broadcastable_to(c, x)
    value = float(uniform_value(c))
    require(np.isfinite(value) and value != 0, f"{value} is not a scale")
    return float(factors(op, x, np.full(1, value))[0])


def factors(op: Op, x: Value, numbers: Array) -> Array:
    """The factors of a Mul or Div of `x` by `numbers`; where a number is 0, a factor of a Div is infinite."""
    if op.type == "Mul":
        return numbers
    if op.inputs[0] is not x:
        raise MatchFailure("it is a quotient of a constant")
    return 1 / numbers


def require_no_gelu(x: Value) -> None:
    """Decline where `x` is `c * (u * (Erf(z) + 1))`, or the same with Tanh."""
    factors_of_x = (u for y in computed_inputs(x, "Mul") for u in computed_inputs(y, "Mul"))
    sums = (v for u in factors_of_x for v in computed_inputs(u, "Add", "Sum"))
    require(not any(is_produced_by(v, "Erf", "Tanh") for v in sums), f"{x.name} is a Gelu")


def require_no_norm(x: Value) -> None:
    """Decline where `x` is `scale * (u / Sqrt(v))`, or that and a shift."""
    scaled = (x, *computed_inputs(x, "Add"))
    divisors = (v for y in scaled for u in computed_inputs(y, "Mul") for v in computed_inputs(u, "Div"))
    require(not any(is_produced_by(v, "Sqrt") for v in divisors), f"{x.name} is normalized")


def computed_inputs(x: Value, *types: str) -> list[Value]:
    """The inputs that are not constant of the op that makes `x`; none if it is of none of these types."""
    op = x.producer if is_produced_by(x, *types) else None
    return [] if op is None else varying_inputs(op)


def is_produced_by(x: Value, *types: str) -> bool:
    """Whether a standard op of one of these types makes `x`."""
    op = x.producer
    return op is not None and not op.domain and op.type in types
