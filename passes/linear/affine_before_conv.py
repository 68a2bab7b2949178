"""What scales or shifts the channels in front of a convolution is part of its weights and bias.

Zeros of the padding stay zeros when they are scaled, but not when they are shifted: a shift folds only where
nothing is padded.
"""

from __future__ import annotations

import numpy as np

from ...core import ROUNDING, Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import Array, downcast_weights, require_broadcastable_to
from .affine import Affine, required_affine
from .batchnorm import scale_and_shift
from .convolution import INPUT_AXIS, grouped_weights, input_channels, scaled_weights
from .ort_fusion_guards import require_no_gelu
from .sliding_window import conv_window


@rule(
    lambda g, x, w, c, conv, op, b=None: (
        g.one_of("Conv", "ConvTranspose")(g.Mul(x, g.const(c)) @ op, g.const(w), b) @ conv
    ),
    contract=ROUNDING,
)
def fold_product_before_conv(g: Build, x: Value, w: Value, b: Value | None, c: Value, conv: Op, op: Op) -> Value:
    """Conv(x * c, w, b) => Conv(x, w * c, b)"""
    return fold_affine_before(g, x, w, b, conv, affine_of_operand(x, w, c, conv, op))


@rule(
    lambda g, x, w, c, conv, op, b=None: (
        g.one_of("Conv", "ConvTranspose")(g.Div(x, g.const(c)) @ op, g.const(w), b) @ conv
    ),
    contract=ROUNDING,
)
def fold_quotient_before_conv(g: Build, x: Value, w: Value, b: Value | None, c: Value, conv: Op, op: Op) -> Value:
    """Conv(x / c, w, b) => Conv(x, w / c, b)"""
    return fold_affine_before(g, x, w, b, conv, affine_of_operand(x, w, c, conv, op))


@rule(
    lambda g, x, w, c, conv, op, b=None: g.Conv(g.Add(x, g.const(c)) @ op, g.const(w), b) @ conv,
    contract=ROUNDING,
)
def fold_sum_before_conv(g: Build, x: Value, w: Value, b: Value | None, c: Value, conv: Op, op: Op) -> Value:
    """Conv(x + c, w, b) => Conv(x, w, b + sum(w * c)), nothing padded"""
    return fold_affine_before(g, x, w, b, conv, affine_of_operand(x, w, c, conv, op))


@rule(
    lambda g, x, w, c, conv, op, b=None: g.Conv(g.Sub(x, g.const(c)) @ op, g.const(w), b) @ conv,
    contract=ROUNDING,
)
def fold_difference_before_conv(g: Build, x: Value, w: Value, b: Value | None, c: Value, conv: Op, op: Op) -> Value:
    """Conv(x - c, w, b) => Conv(x, w, b - sum(w * c)), nothing padded"""
    return fold_affine_before(g, x, w, b, conv, affine_of_operand(x, w, c, conv, op))


@rule(
    lambda g, x, w, c, conv, op, b=None: g.Conv(g.Sub(g.const(c), x) @ op, g.const(w), b) @ conv,
    contract=ROUNDING,
)
def fold_reflection_before_conv(g: Build, x: Value, w: Value, b: Value | None, c: Value, conv: Op, op: Op) -> Value:
    """Conv(c - x, w, b) => Conv(x, -w, b + sum(w * c)), nothing padded"""
    return fold_affine_before(g, x, w, b, conv, affine_of_operand(x, w, c, conv, op))


@rule(
    lambda g, x, w, conv, op, b=None: g.one_of("Conv", "ConvTranspose")(g.Neg(x) @ op, g.const(w), b) @ conv,
    contract=ROUNDING,
)
def fold_negation_before_conv(g: Build, x: Value, w: Value, b: Value | None, conv: Op, op: Op) -> Value:
    """Conv(-x, w, b) => Conv(x, -w, b)"""
    return fold_affine_before(g, x, w, b, conv, (-np.ones(1), np.zeros(1)))


@rule(
    lambda g, x, w, scale, bias, mean, var, conv, bn, b=None: (
        g.one_of("Conv", "ConvTranspose")(
            g.BatchNormalization(x, g.const(scale), g.const(bias), g.const(mean), g.const(var)) @ bn, g.const(w), b
        )
        @ conv
    ),
    contract=ROUNDING,
)
def fold_batchnorm_before_conv(
    g: Build, x: Value, w: Value, b: Value | None, scale: Value, bias: Value, mean: Value, var: Value, conv: Op, bn: Op
) -> Value:
    """Conv(BatchNormalization(x), w, b) => Conv(x, w * k, b + sum(w * c)), nothing padded or c = 0"""
    k, shift = scale_and_shift(bn, scale, bias, mean, var)
    require(k.size == input_channels(conv, w), "the statistics do not fit the weights")
    return fold_affine_before(g, x, w, b, conv, (k, shift))


def affine_of_operand(x: Value, w: Value, c: Value, conv: Op, op: Op) -> Affine:
    """What `op` does to `x`, whose shape it must not change."""
    require(x.rank == w.rank, f"{x.name} has not the rank of {w.name}")
    require_no_gelu(op.outputs[0])
    require_broadcastable_to(c, x)
    return required_affine(op, x, w.rank, input_channels(conv, w))


def fold_affine_before(g: Build, x: Value, w: Value, b: Value | None, conv: Op, affine: Affine) -> Value:
    """The convolution of `x` that gives what `conv` gives of `k * x + shift`."""
    k, shift = affine
    require(bool(np.isfinite(k).all() and np.isfinite(shift).all()), "a number is not finite")
    if shift.any():
        require(conv.type == "Conv", "at the border of a ConvTranspose fewer inputs are summed up")
        require(not any(conv_window(conv, w).pads), "the zeros of the padding would be shifted")
    kind = np.dtype(w.const.dtype)
    new = g.const(downcast_weights(scaled_weights(conv, w, k, INPUT_AXIS), kind)) if (k != 1).any() else w
    bias = g.const(downcast_weights(shifted_bias(conv, w, b, shift), kind)) if shift.any() else b
    made: Value = (g.ConvTranspose if conv.type == "ConvTranspose" else g.Conv)(x, new, bias, **conv.attrs)
    return made


def shifted_bias(conv: Op, w: Value, b: Value | None, shift: Array) -> Array:
    """The bias of a Conv whose inputs are no longer shifted."""
    weights = grouped_weights(conv, w)
    groups, outputs, inputs = weights.shape[:3]
    with np.errstate(all="ignore"):
        taps = weights.reshape(groups, outputs, inputs, -1).sum(axis=-1)
        per = np.broadcast_to(shift, groups * inputs).reshape(groups, inputs, 1)
        old = np.zeros(1) if b is None else b.const.astype(np.float64)
        return old + (taps @ per).reshape(-1)


FOLD_AFFINE_BEFORE_CONV = RulePass(
    "fold-affine-before-conv",
    (
        fold_product_before_conv,
        fold_quotient_before_conv,
        fold_sum_before_conv,
        fold_difference_before_conv,
        fold_reflection_before_conv,
        fold_negation_before_conv,
        fold_batchnorm_before_conv,
    ),
)
