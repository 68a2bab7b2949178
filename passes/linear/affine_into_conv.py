"""Folding of affine ops into convolutions before and after them.

`fold-batchnorm`: Folding of BatchNormalization into a preceding convolution.
`fold-affine-into-conv`: Folding of affine ops into a preceding convolution.
`fold-affine-before-conv`: Folding of affine ops into a following convolution.
`hoist-affine`: Hoisting of affine ops through sums, Concat, Squeeze and pools into the convolutions before them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import Op, RewriteBuilder, Value, require, rule
from ..movement.reshapes import squeezed_axes
from ..support.operand_queries import (
    Array,
    downcast_constant,
    has_one_use,
    normalized_axes,
    operand,
    require_broadcastable_to,
    required_producer,
    varying_operand,
)
from .affine import ARITHMETIC, ONE, ZERO, Affine, other_operand, require_no_gelu, required_affine
from .convolution import (
    CONVOLUTIONS,
    INPUT_AXIS,
    conv_window,
    fold_affine,
    input_channels,
    output_channels,
    scaled_weights,
    shifted_bias,
)


def constant_conv(g: Any, x: Any, w: Any) -> Any:
    """The pattern of a convolution with constant weights."""
    return g.one_of(*CONVOLUTIONS)(x, g.const(w), ...)


@rule(lambda g, x, w, conv, bn: g.BatchNormalization(constant_conv(g, x, w) @ conv, ...) @ bn, group="fold-batchnorm")
def fold_batchnorm_into_conv(g: RewriteBuilder, w: Value, conv: Op, bn: Op) -> Value:
    """BatchNormalization(Conv(x, w, b)) => Conv(x, w * k, (b - mean) * k + bias), k = scale / sqrt(var + epsilon)"""
    return fold_affine(g, conv, *required_affine(bn, conv.outputs[0], w.rank, output_channels(conv, w)))


@rule(
    lambda g, x, w, conv, c, op: g.one_of(*ARITHMETIC)(constant_conv(g, x, w) @ conv, g.const(c)) @ op,
    lambda g, x, w, conv, c, op: g.Sub(g.const(c), constant_conv(g, x, w) @ conv) @ op,
    lambda g, x, w, conv, op: g.Neg(constant_conv(g, x, w) @ conv) @ op,
    group="fold-affine-into-conv",
)
def fold_affine_into_conv(g: RewriteBuilder, w: Value, conv: Op, op: Op) -> Value:
    """K * Conv(x, w, b) + c => Conv(x, w * k, b * k + c)"""
    return fold_affine(g, conv, *required_affine(op, conv.outputs[0], w.rank, output_channels(conv, w)))


@rule(
    lambda g, x, w, c, conv, op: (
        g.one_of(*CONVOLUTIONS)(g.one_of(*ARITHMETIC)(x, g.const(c)) @ op, g.const(w), ...) @ conv
    ),
    lambda g, x, w, c, conv, op: g.one_of(*CONVOLUTIONS)(g.Sub(g.const(c), x) @ op, g.const(w), ...) @ conv,
    lambda g, w, conv, op: (
        g.one_of(*CONVOLUTIONS)(g.one_of("Neg", "BatchNormalization")(...) @ op, g.const(w), ...) @ conv
    ),
    group="fold-affine-before-conv",
)
def fold_affine_before_conv(g: RewriteBuilder, w: Value, conv: Op, op: Op) -> Value:
    """Conv(k * x + c, w, b) => Conv(x, w * k, b + sum(w * c)), nothing padded or c = 0"""
    x = varying_operand(op)
    if op.type in ARITHMETIC:
        require(x.rank == w.rank, f"{x.name} has not the rank of {w.name}")
        require_no_gelu(op.outputs[0])
        require_broadcastable_to(other_operand(op, x), x)
    k, shift = required_affine(op, x, w.rank, input_channels(conv, w))
    require(bool(np.isfinite(k).all() and np.isfinite(shift).all()), "a number is not finite")
    if shift.any():
        require(conv.type == "Conv", "at the border of a ConvTranspose fewer inputs are summed up")
        require(not any(conv_window(conv, w).pads), "the zeros of the padding would be shifted")
    new = downcast_constant(g, scaled_weights(conv, w, k, INPUT_AXIS), w) if (k != 1).any() else w
    bias = downcast_constant(g, shifted_bias(conv, w, shift), w) if shift.any() else conv.input(2)
    return getattr(g, conv.type)(x, new, bias, **conv.attrs)


POOL_OPS = ("AveragePool", "GlobalAveragePool", "MaxPool", "GlobalMaxPool")
MAX_DEPTH = 8  # ops passed through on one path, which bounds vain searches


def joined_channels(g: Any) -> Any:
    """The pattern of an op through which affine ops are hoisted."""
    return g.one_of("Add", "Sub", "Concat", "Squeeze", *POOL_OPS)(...)


@rule(
    lambda g, op, c, then: g.one_of(*ARITHMETIC)(joined_channels(g) @ op, g.const(c)) @ then,
    lambda g, op, c, then: g.Sub(g.const(c), joined_channels(g) @ op) @ then,
    lambda g, op, then: g.BatchNormalization(joined_channels(g) @ op, ...) @ then,
    group="hoist-affine",
)
def hoist_affine(g: RewriteBuilder, op: Op, then: Op) -> Value:
    """K * (Conv + Conv) + c => Conv + Conv; as well for Concat, Squeeze and pools of them"""
    y = op.outputs[0]
    require(varying_operand(then) is y, f"{then.label} is not of constants and {y.name}")
    scales = then.type not in {"Add", "Sub"}  # before any number is looked at
    require(accepts_affine(y, then, scales=scales), f"{y.name} does not come from convolutions of its own")
    require(y.rank >= 3, "it has no channels")
    channels = y.shape[1] if isinstance(y.shape[1], int) else None
    return apply_affine(g, y, required_affine(then, y, y.rank, channels), y.rank)


def accepts_affine(y: Value, reader: Op, *, scales: bool, depth: int = 0) -> bool:
    """Whether `y`, read by nothing else, comes from convolutions that can be scaled, or at least shifted."""
    op = y.producer
    if op is None or op.graph is not reader.graph or op.domain or depth == MAX_DEPTH or not has_one_use(y):
        return False
    if op.type in CONVOLUTIONS:
        w = op.input(1)
        return w is not None and w.is_const
    if op.type not in {"Add", "Sub", "Concat", "Squeeze", *POOL_OPS} or op.version < 7:
        return False  # older sums broadcast by attribute
    enough = any if op.type in {"Add", "Sub"} and not scales else all
    inputs = op.inputs[:1] if op.type == "Squeeze" else op.inputs
    return enough(v is not None and accepts_affine(v, op, scales=scales, depth=depth + 1) for v in inputs)


def apply_affine(g: RewriteBuilder, y: Value, affine: Affine, rank: int) -> Value:
    """`k * y + shift` for a value that takes it."""
    op = required_producer(y, *CONVOLUTIONS, "Add", "Sub", "Concat", "Squeeze", *POOL_OPS)
    if op.type in CONVOLUTIONS:
        require(operand(op, 1).rank == rank, f"{y.name} is stretched")
        return fold_affine(g, op, *affine)
    if op.type in {"Add", "Sub"}:
        return apply_affine_to_sum(g, op, affine, rank)
    if op.type == "Concat":
        return apply_affine_to_concat(g, op, affine, rank)
    if op.type == "Squeeze":
        axes = squeezed_axes(op, operand(op))
        require(all(axis > 1 for axis in axes), "its channels have another place")
        return g.Squeeze(apply_affine(g, operand(op), affine, rank + len(axes)), axes=axes)
    require_commutes(op, *affine)
    return getattr(g, op.type)(apply_affine(g, operand(op), affine, rank), **op.attrs)


def apply_affine_to_sum(g: RewriteBuilder, op: Op, affine: Affine, rank: int) -> Value:
    """Both operands are scaled, and one that can be is shifted."""
    k, shift = affine
    a, b = operand(op), operand(op, 1)
    if (k != 1).any():
        a, b = apply_affine(g, a, (k, shift), rank), apply_affine(g, b, (k, ZERO), rank)
    elif accepts_affine(a, op, scales=False):
        a = apply_affine(g, a, (ONE, shift), rank)
    else:
        b = apply_affine(g, b, (ONE, shift if op.type == "Add" else -shift), rank)
    return g.Add(a, b) if op.type == "Add" else g.Sub(a, b)


def apply_affine_to_concat(g: RewriteBuilder, op: Op, affine: Affine, rank: int) -> Value:
    """Each part is scaled and shifted by the numbers of its channels."""
    (axis,) = normalized_axes([int(op.attr("axis", 1))], rank)
    parts = [x for x in op.inputs if x is not None]
    each = [affine] * len(parts)
    if axis == 1:
        sizes = [x.shape[1] for x in parts]
        ends = np.cumsum([d if isinstance(d, int) else 0 for d in sizes])
        whole = affine[0].size == affine[1].size == 1
        require(whole or all(isinstance(d, int) for d in sizes), "the numbers of channels are unknown")
        each = list(zip(split_by_channels(affine[0], ends), split_by_channels(affine[1], ends), strict=True))
    return g.Concat(*(apply_affine(g, x, e, rank) for x, e in zip(parts, each, strict=True)), **op.attrs)


def split_by_channels(numbers: Array, ends: Array) -> list[Array]:
    """The numbers of each part of the channels; one number belongs to all."""
    if numbers.size == 1:
        return [numbers] * len(ends)
    require(numbers.size == ends[-1], "there is not one number for each channel")
    return np.split(numbers, ends[:-1])


def require_commutes(pool: Op, k: Array, shift: Array) -> None:
    """A pool of scaled and shifted values has to be the pool, scaled and shifted."""
    if pool.type == "AveragePool":
        counts = pool.version >= 7 and pool.attr("count_include_pad", 0)
        plain = not counts and not pool.attr("ceil_mode", 0)
        require(plain or not shift.any(), "it may average over more than there is")
    elif pool.type in {"MaxPool", "GlobalMaxPool"}:
        require(bool((k > 0).all()), "the greatest would become the least")
        require(all(not v.name or pool.graph.is_unused(v) for v in pool.outputs[1:]), "indices are used")
