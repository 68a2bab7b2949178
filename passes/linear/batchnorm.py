"""BatchNormalization behind a convolution is a rescaled convolution."""

from __future__ import annotations

import numpy as np

from ...core import ROUNDING, Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import Array
from .convolution import fold_affine, output_channels


@rule(
    lambda g, x, w, scale, bias, mean, var, conv, bn, b=None: (
        g.BatchNormalization(g.Conv(x, g.const(w), b) @ conv, scale, bias, mean, var) @ bn
    ),
    contract=ROUNDING,
)
def fold_batchnorm_into_conv(
    g: Build, x: Value, w: Value, b: Value | None, scale: Value, bias: Value, mean: Value, var: Value, conv: Op, bn: Op
) -> Value:
    """BatchNormalization(Conv(x, w, b)) => Conv(x, w * k, (b - mean) * k + bias), k = scale / sqrt(var + epsilon)"""
    k, shift = scale_and_shift(bn, scale, bias, mean, var)
    require(k.size == output_channels(conv, w), "the weights do not fit the statistics")
    return fold_affine(g, conv, k, shift)


@rule(
    lambda g, x, w, scale, bias, mean, var, conv, bn, b=None: (
        g.BatchNormalization(g.ConvTranspose(x, g.const(w), b) @ conv, scale, bias, mean, var) @ bn
    ),
    contract=ROUNDING,
)
def fold_batchnorm_into_conv_transpose(
    g: Build, x: Value, w: Value, b: Value | None, scale: Value, bias: Value, mean: Value, var: Value, conv: Op, bn: Op
) -> Value:
    """BatchNormalization(ConvTranspose(x, w, b)) => ConvTranspose(x, w * k, (b - mean) * k + bias)"""
    k, shift = scale_and_shift(bn, scale, bias, mean, var)
    require(k.size == output_channels(conv, w), "the weights do not fit the statistics")
    return fold_affine(g, conv, k, shift)


def scale_and_shift(bn: Op, scale: Value, bias: Value, mean: Value, var: Value) -> tuple[Array, Array]:
    """The k and c with which a BatchNormalization in inference form is `x * k + c`, in float64, one per channel."""
    require(bn.version >= 7, "before opset 7 the statistics may be updated in place")
    require(not bn.attr("training_mode", 0), "in training mode the statistics come from the data")
    require(bn.attr("spatial", 1) == 1, "the statistics are per element, not per channel")
    # Before opset 14 the optional outputs are what says that it trains (BatchNormalization-9, Outputs case 1).
    require(not any(v.name for v in bn.outputs[1:]), "it also gives statistics, as in training mode")
    gamma, beta, mu, sigma2 = (v.const.astype(np.float64) for v in (scale, bias, mean, var))
    require(gamma.ndim == 1 and gamma.shape == beta.shape == mu.shape == sigma2.shape, "the statistics differ in shape")
    with np.errstate(all="ignore"):
        k = gamma / np.sqrt(sigma2 + bn.attr("epsilon", 1e-5))
        return k, beta - mu * k


FOLD_BATCHNORM = RulePass("fold-batchnorm", (fold_batchnorm_into_conv, fold_batchnorm_into_conv_transpose))
