"""Folding of affine ops into a following convolution.

Zeros of the padding stay zeros when they are scaled, but not when they are shifted: a shift folds only where
nothing is padded.
"""

from __future__ import annotations

import numpy as np

from ...core import Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import Array, downcast_weights, require_broadcastable_to
from .affine import AFFINE_OPS, ARITHMETIC, Affine, other_operand, required_affine, varying_operand
from .convolution import CONVOLUTIONS, INPUT_AXIS, grouped_weights, input_channels, scaled_weights
from .ort_fusion_guards import require_no_gelu
from .sliding_window import conv_window


@rule(lambda g, w, conv, op: g.one_of(*CONVOLUTIONS)(g.one_of(*AFFINE_OPS)(...) @ op, g.const(w), ...) @ conv)
def fold_affine_before_conv(g: Build, w: Value, conv: Op, op: Op) -> Value:
    """Conv(k * x + c, w, b) => Conv(x, w * k, b + sum(w * c)), nothing padded or c = 0"""
    x = varying_operand(op)
    if op.type in ARITHMETIC:
        require(x.rank == w.rank, f"{x.name} has not the rank of {w.name}")
        require_no_gelu(op.outputs[0])
        require_broadcastable_to(other_operand(op, x), x)
    return conv_of_affine(g, x, w, conv, required_affine(op, x, w.rank, input_channels(conv, w)))


def conv_of_affine(g: Build, x: Value, w: Value, conv: Op, affine: Affine) -> Value:
    """The convolution of `x` that gives what `conv` gives of `k * x + shift`."""
    (k, shift), b = affine, conv.input(2)
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


FOLD_AFFINE_BEFORE_CONV = RulePass("fold-affine-before-conv", (fold_affine_before_conv,))
