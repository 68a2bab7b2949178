"""Folding of affine ops and BatchNormalization into a preceding convolution."""

from __future__ import annotations

from ...core import Build, Op, RulePass, Value, rule
from .affine import ARITHMETIC, required_affine
from .convolution import CONVOLUTIONS, fold_affine, output_channels


@rule(lambda g, x, w, conv, bn: g.BatchNormalization(g.one_of(*CONVOLUTIONS)(x, g.const(w), ...) @ conv, ...) @ bn)
def fold_batchnorm_into_conv(g: Build, w: Value, conv: Op, bn: Op) -> Value:
    """BatchNormalization(Conv(x, w, b)) => Conv(x, w * k, (b - mean) * k + bias), k = scale / sqrt(var + epsilon)"""
    return fold_affine(g, conv, *required_affine(bn, conv.outputs[0], w.rank, output_channels(conv, w)))


@rule(
    lambda g, x, w, conv, op: (
        g.one_of(*ARITHMETIC, "Neg")(..., g.one_of(*CONVOLUTIONS)(x, g.const(w), ...) @ conv, ...) @ op
    )
)
def fold_affine_into_conv(g: Build, w: Value, conv: Op, op: Op) -> Value:
    """K * Conv(x, w, b) + c => Conv(x, w * k, b * k + c)"""
    return fold_affine(g, conv, *required_affine(op, conv.outputs[0], w.rank, output_channels(conv, w)))


FOLD_BATCHNORM = RulePass("fold-batchnorm", (fold_batchnorm_into_conv,))
FOLD_AFFINE_INTO_CONV = RulePass("fold-affine-into-conv", (fold_affine_into_conv,))
