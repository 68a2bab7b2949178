"""BatchNormalization behind a convolution is a rescaled convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import ROUNDING, Build, Op, RulePass, Value, require, rule

Array = np.ndarray[Any, Any]


@rule(
    lambda g, x, w, scale, bias, mean, var, conv, bn, b=None: (
        g.BatchNormalization(g.Conv(x, w, b) @ conv, scale, bias, mean, var) @ bn
    ),
    contract=ROUNDING,
)
def fold_batchnorm_into_conv(
    g: Build, x: Value, w: Value, b: Value | None, scale: Value, bias: Value, mean: Value, var: Value, conv: Op, bn: Op
) -> Value:
    """BatchNormalization(Conv(x, w, b)) => Conv(x, w * k, (b - mean) * k + bias), k = scale / sqrt(var + epsilon)"""
    k, shift = scale_and_shift(bn, scale, bias, mean, var)
    weights = w.const.astype(np.float64)
    require(weights.ndim >= 3 and weights.shape[0] == k.size, "the weights do not fit the statistics")
    weights = scaled(weights, k.reshape(-1, *[1] * (weights.ndim - 1)))
    return g.Conv(x, *rescaled(g, w, weights, b, k, shift), **conv.attrs)


@rule(
    lambda g, x, w, scale, bias, mean, var, conv, bn, b=None: (
        g.BatchNormalization(g.ConvTranspose(x, w, b) @ conv, scale, bias, mean, var) @ bn
    ),
    contract=ROUNDING,
)
def fold_batchnorm_into_conv_transpose(
    g: Build, x: Value, w: Value, b: Value | None, scale: Value, bias: Value, mean: Value, var: Value, conv: Op, bn: Op
) -> Value:
    """BatchNormalization(ConvTranspose(x, w, b)) => ConvTranspose(x, w * k, (b - mean) * k + bias)"""
    k, shift = scale_and_shift(bn, scale, bias, mean, var)
    groups = int(conv.attr("group", 1))
    weights = w.const.astype(np.float64)  # (inputs, outputs / groups, *kernel)
    require(weights.ndim >= 3 and weights.shape[1] * groups == k.size, "the weights do not fit the statistics")
    grouped = weights.reshape(groups, -1, *weights.shape[1:])
    grouped = scaled(grouped, k.reshape(groups, 1, -1, *[1] * (weights.ndim - 2)))
    return g.ConvTranspose(x, *rescaled(g, w, grouped.reshape(weights.shape), b, k, shift), **conv.attrs)


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


def scaled(weights: Array, k: Array) -> Array:
    """`weights * k`; what overflows is looked at later."""
    with np.errstate(all="ignore"):
        return weights * k


def rescaled(g: Build, w: Value, weights: Array, b: Value | None, k: Array, shift: Array) -> tuple[Value, Value]:
    """New weights, and the bias `b * k + shift`, in the type of `w`; declines what that type cannot hold."""
    with np.errstate(all="ignore"):
        bias = shift if b is None else b.const.astype(np.float64) * k + shift
        narrow = [a.astype(w.const.dtype) for a in (weights, bias)]
    require(all(np.isfinite(a).all() for a in narrow), "the scaled weights overflow")
    return g.const(narrow[0]), g.const(narrow[1])


FOLD_BATCHNORM = RulePass("fold-batchnorm", (fold_batchnorm_into_conv, fold_batchnorm_into_conv_transpose))
