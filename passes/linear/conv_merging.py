"""Merging of parallel and of consecutive convolutions.

`merge-parallel-convs`: Merging of parallel convolutions of one value whose outputs are added, and of a convolution with
its input.
`merge-consecutive-convs`: Merging of two consecutive convolutions of which one is pointwise, where that costs no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from ...core import Op, RewriteBuilder, Value, conditional, require, rule
from ..support.operand_queries import (
    Array,
    Inputs,
    downcast_constant,
    is_finite,
    operand,
    require_no_rounding,
    require_numpy_broadcasting,
    sum_of_constants,
)
from .affine import ONE, ZERO, Affine, required_affine
from .convolution import (
    Window,
    conv_window,
    group_count,
    grouped_weights,
    input_channels,
    shifted_bias,
    tap_slices,
    union,
    weights_as_float64,
)

# Infinities of both signs make NaN where they are added up; one convolution may never form one of them.
FINITE_BRANCHES = conditional("the outputs of the branches are finite", each=is_finite)


class ConvBranch(Struct, frozen=True):
    """A Conv that is one of several: its op, weights, bias, and window."""

    conv: Op
    w: Value
    b: Value | None
    window: Window

    @classmethod
    def of(cls, conv: Op) -> ConvBranch:
        """Read a Conv with constant weights; declines where its bias is computed."""
        w, b = operand(conv, 1), conv.input(2)
        require(b is None or b.is_const, "the bias is computed")
        require_no_rounding(b)
        return cls(conv, w, b, conv_window(conv, w, conv.input(0)))

    @property
    def bias(self) -> Array:
        """The bias in float64."""
        return np.zeros(1) if self.b is None else self.b.const.astype(np.float64)


def weighted_conv(g: Any, x: Any, w: Any, op: Any) -> Any:
    """The pattern of a Conv with constant weights."""
    return g.Conv(x, g.const(w), ...) @ op


MAX_OPERANDS = 256  # of a Sum: each pair of Convs that is merged takes a new one


@rule(
    lambda g, x, w, v, p, q, op: g.one_of("Add", "Sub")(weighted_conv(g, x, w, p), weighted_conv(g, x, v, q)) @ op,
    lambda g, x, a, w, v, p, q, op: g.Add(g.Add(a, weighted_conv(g, x, w, p)), weighted_conv(g, x, v, q)) @ op,
    lambda g, x, w, v, before, between, after, p, q, op: (
        g.Sum(*before, weighted_conv(g, x, w, p), *between, weighted_conv(g, x, v, q), *after) @ op
    ),
    contract=FINITE_BRANCHES,
    group="merge-parallel-convs",
)
def merge_parallel_convs(
    g: RewriteBuilder, x: Value, p: Op, q: Op, op: Op, a: Value | None = None,
    before: Inputs = (), between: Inputs = (), after: Inputs = (),
) -> Value:  # fmt: skip
    """Conv(x, w, b) + Conv(x, v, c) => Conv(x, w + v, b + c), smaller kernels padded with zeros; so in a longer sum"""
    if op.type != "Sum":
        require_numpy_broadcasting(op.version)
    require(len(op.inputs) <= MAX_OPERANDS, "too many operands")
    one = sum_of_convs(g, x, ConvBranch.of(p), ConvBranch.of(q), -1 if op.type == "Sub" else 1)
    if a is not None:
        return g.Add(a, one)
    return g.Sum(*before, one, *between, *after) if (*before, *between, *after) else one


@rule(
    lambda g, x, w, conv, op: g.Add(weighted_conv(g, x, w, conv), x) @ op,
    lambda g, x, w, conv, affine, op: (
        g.Add(weighted_conv(g, x, w, conv), g.one_of("Mul", "BatchNormalization")(..., x, ...) @ affine) @ op
    ),
    contract=FINITE_BRANCHES,
    group="merge-parallel-convs",
)
def merge_conv_with_affine(g: RewriteBuilder, x: Value, w: Value, conv: Op, op: Op, affine: Op | None = None) -> Value:
    """Conv(x, w, b) + (k * x + c) => Conv(x, w + k in the centre, b + c), Conv(x, w, b) + x => Conv(x, w + 1, b)"""
    require_numpy_broadcasting(op.version)
    identity = (ONE, ZERO)
    k_and_c = identity if affine is None else required_affine(affine, x, w.rank, input_channels(conv, w))
    return conv_plus_affine(g, x, ConvBranch.of(conv), k_and_c)


def sum_of_convs(g: RewriteBuilder, x: Value, a: ConvBranch, b: ConvBranch, sign: int) -> Value:
    """The Conv that gives a + sign * b, which must not have more weights than the two."""
    groups = group_count(a.conv, a.w)
    require(groups == group_count(b.conv, b.w), "the groups differ")
    shape = a.w.static_shape[:2]
    require(shape == b.w.static_shape[:2] and a.w.rank == b.w.rank, "the channels differ")
    both = union(a.window, b.window)
    require(prod(both.kernel) <= prod(a.window.kernel) + prod(b.window.kernel), "it costs more")
    weights = with_taps(a, both) + sign * with_taps(b, both)
    has_bias = a.b is not None or b.b is not None
    like = b if both == b.window != a.window else a
    return build_conv(g, x, like, weights, sum_of_constants(a.w, a.bias, sign * b.bias) if has_bias else None, both)


def with_taps(branch: ConvBranch, target: Window) -> Array:
    """The weights in the window of another branch, with zeros beside."""
    own = weights_as_float64(branch.w)
    found = np.zeros_like(own, shape=(*own.shape[:2], *target.kernel))
    found[:, :, *tap_slices(branch.window, target)] = own
    return found


def conv_plus_affine(g: RewriteBuilder, x: Value, a: ConvBranch, affine: Affine) -> Value:
    """The Conv that gives a + k * x + shift, with no more weights than `a` has."""
    k, shift = affine
    outputs, inputs = a.w.static_shape[:2]
    require(outputs == inputs * group_count(a.conv, a.w), "the channels differ in number")
    point = Window.point(len(a.window.kernel))
    both = union(a.window, point)
    require(both.kernel == a.window.kernel, "it costs more")
    weights, rows = weights_as_float64(a.w), np.arange(outputs)
    weights[rows, rows % inputs, *(s.start for s in tap_slices(point, both))] += np.broadcast_to(k, outputs)
    has_bias = a.b is not None or bool(shift.any())
    return build_conv(g, x, a, weights, sum_of_constants(a.w, a.bias, shift) if has_bias else None, both)


def build_conv(
    g: RewriteBuilder, x: Value, like: ConvBranch, weights: Array, bias: Array | None, target: Window
) -> Value:
    """A Conv with these weights, and with the attributes of `like` where it has the same window."""
    is_same = target == like.window
    attrs = like.conv.attrs if is_same else {**target.attrs, "group": int(like.conv.attr("group", 1))}
    b = None if bias is None else downcast_constant(g, np.broadcast_to(bias, len(weights)), like.w)
    return g.Conv(x, downcast_constant(g, weights, like.w), b, **attrs)


# Infinities of both signs make NaN where they are added up; one convolution may never form one of them.
FINITE_INTERMEDIATE = conditional("the output of the first convolution is finite", each=is_finite)


@rule(
    lambda g, x, w, v, first, second: g.Conv(weighted_conv(g, x, w, first), g.const(v), ...) @ second,
    contract=FINITE_INTERMEDIATE,
    group="merge-consecutive-convs",
)
def merge_conv_with_pointwise(g: RewriteBuilder, x: Value, w: Value, v: Value, first: Op, second: Op) -> Value:
    """Conv(Conv(x, w, b), v 1x1, c) => Conv(x, v @ w, v @ b + c)"""
    points = pointwise_window(second, v)
    attrs = dict(first.attrs)
    if set(points.strides) != {1}:
        require(attrs.get("auto_pad", "NOTSET") in {"NOTSET", "VALID"}, "SAME padding depends on strides")
        attrs["strides"] = [a * b for a, b in zip(conv_window(first, w, x).strides, points.strides, strict=True)]
    return merged_conv(g, x, first, second, w, attrs)


@rule(
    lambda g, x, w, v, first, second: g.Conv(weighted_conv(g, x, w, first), g.const(v), ...) @ second,
    contract=FINITE_INTERMEDIATE,
    group="merge-consecutive-convs",
)
def merge_pointwise_with_conv(g: RewriteBuilder, x: Value, w: Value, v: Value, first: Op, second: Op) -> Value:
    """Conv(Conv(x, w 1x1, b), v, c) => Conv(x, v @ w, sum(v @ b) + c), nothing padded or b = 0"""
    points, b = pointwise_window(first, w), first.input(2)
    require(set(points.strides) == {1}, "the first steps over points")
    shifts = b is not None and bool(b.const.any())
    require(not shifts or not any(conv_window(second, v).pads), "the zeros of the padding would be shifted")
    return merged_conv(g, x, first, second, v, second.attrs)


def pointwise_window(conv: Op, w: Value) -> Window:
    """The window of a convolution with a kernel of one point and no padding."""
    require(set(w.static_shape[2:]) == {1}, "the kernel is larger than a point")
    points = conv_window(conv, w)
    require(not any(points.pads), "it pads")
    return points


def merged_conv(g: RewriteBuilder, x: Value, first: Op, second: Op, kernel: Value, attrs: Mapping[str, Any]) -> Value:
    """One Conv for two, with the taps of `kernel`; the other one is pointwise.

    Declines more weights, and so more products, than the two have.
    """
    w, v, b, c = operand(first, 1), operand(second, 1), first.input(2), second.input(2)
    groups, between, inputs, shape = group_count(first, w), w.static_shape[0], w.static_shape[1], kernel.static_shape
    require(groups == group_count(second, v), "the groups differ")
    require(between == v.static_shape[1] * groups, "the weights do not fit")
    merged = (v.static_shape[0], inputs, *shape[2:])
    require(prod(merged) <= prod(w.static_shape) + prod(v.static_shape), "it costs more")
    left, right = grouped_weights(second, v), grouped_weights(first, w)
    taps = np.moveaxis(left.reshape(*left.shape[:3], -1), 3, 1)  # (groups, taps, outputs, between)
    products = taps @ right.reshape(groups, 1, right.shape[1], -1)
    weights = np.moveaxis(products.reshape(*products.shape[:3], inputs, -1), 1, 3).reshape(merged)
    bias = None if c is None else c.const.astype(np.float64)
    if b is not None:
        require_no_rounding(b)
        bias = shifted_bias(second, v, b.const.astype(np.float64))
    new_bias = None if bias is None else downcast_constant(g, bias, kernel)
    return g.Conv(x, downcast_constant(g, weights, kernel), new_bias, **attrs)
