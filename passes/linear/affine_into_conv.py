"""A constant added to, taken from, multiplied with or dividing a convolution is part of its weights and bias."""

from __future__ import annotations

from ...core import ROUNDING, Build, Op, RulePass, Value, rule
from .affine import ONE, ZERO, required_affine
from .convolution import fold_affine, output_channels


@rule(
    lambda g, x, w, c, conv, op, b=None: (
        g.Add(g.one_of("Conv", "ConvTranspose")(x, g.const(w), b) @ conv, g.const(c)) @ op
    ),
    contract=ROUNDING,
)
def fold_sum_into_conv(g: Build, x: Value, w: Value, b: Value | None, c: Value, conv: Op, op: Op) -> Value:
    """Conv(x, w, b) + c => Conv(x, w, b + c)"""
    return fold_operand(g, w, conv, op)


@rule(
    lambda g, x, w, c, conv, op, b=None: (
        g.Mul(g.one_of("Conv", "ConvTranspose")(x, g.const(w), b) @ conv, g.const(c)) @ op
    ),
    contract=ROUNDING,
)
def fold_product_into_conv(g: Build, x: Value, w: Value, b: Value | None, c: Value, conv: Op, op: Op) -> Value:
    """Conv(x, w, b) * c => Conv(x, w * c, b * c)"""
    return fold_operand(g, w, conv, op)


@rule(
    lambda g, x, w, c, conv, op, b=None: (
        g.one_of("Sub", "Div")(g.one_of("Conv", "ConvTranspose")(x, g.const(w), b) @ conv, g.const(c)) @ op
    ),
    contract=ROUNDING,
)
def fold_difference_or_quotient_into_conv(
    g: Build, x: Value, w: Value, b: Value | None, c: Value, conv: Op, op: Op
) -> Value:
    """Conv(x, w, b) - c => Conv(x, w, b - c), Conv(x, w, b) / c => Conv(x, w / c, b / c)"""
    return fold_operand(g, w, conv, op)


@rule(
    lambda g, x, w, c, conv, op, b=None: (
        g.Sub(g.const(c), g.one_of("Conv", "ConvTranspose")(x, g.const(w), b) @ conv) @ op
    ),
    contract=ROUNDING,
)
def fold_reflection_into_conv(g: Build, x: Value, w: Value, b: Value | None, c: Value, conv: Op, op: Op) -> Value:
    """Sub(c, Conv(x, w, b)) => Conv(x, -w, c - b)"""
    return fold_operand(g, w, conv, op)


@rule(
    lambda g, x, w, conv, b=None: g.Neg(g.one_of("Conv", "ConvTranspose")(x, g.const(w), b) @ conv),
    contract=ROUNDING,
)
def fold_negation_into_conv(g: Build, x: Value, w: Value, b: Value | None, conv: Op) -> Value:
    """-Conv(x, w, b) => Conv(x, -w, -b)"""
    return fold_affine(g, conv, -ONE, ZERO)


def fold_operand(g: Build, w: Value, conv: Op, op: Op) -> Value:
    """The convolution that does what `op` does to the output of `conv`."""
    return fold_affine(g, conv, *required_affine(op, conv.outputs[0], w.rank, output_channels(conv, w)))


FOLD_AFFINE_INTO_CONV = RulePass(
    "fold-affine-into-conv",
    (
        fold_sum_into_conv,
        fold_product_into_conv,
        fold_difference_or_quotient_into_conv,
        fold_reflection_into_conv,
        fold_negation_into_conv,
    ),
)
