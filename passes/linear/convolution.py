"""Weights, channels and windows of a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from ...core import Op, RewriteBuilder, Value, require
from ..support.operand_queries import (
    Array,
    downcast_constant,
    known,
    known_extent,
    operand,
    require_no_rounding,
    sum_of_constants,
    values_along_axis,
)

CONVOLUTIONS = ("Conv", "ConvTranspose")
MAX_COPIED_BYTES = 16 << 20  # bytes by which copies of one weight may make the model larger
# Where weights lie by group: Conv has (groups, outputs, inputs, *kernel), ConvTranspose inputs before outputs.
OUTPUT_AXIS = {"Conv": 1, "ConvTranspose": 2}
INPUT_AXIS = {"Conv": 2, "ConvTranspose": 1}


def group_count(conv: Op, w: Value) -> int:
    """The number of groups; declines one that does not fit the weights."""
    groups = int(conv.attr("group", 1))
    require(w.rank >= 3 and groups > 0 and w.static_shape[0] % groups == 0, f"{w.name} does not fit {groups} groups")
    return groups


def output_channels(conv: Op, w: Value) -> int:
    """The number of output channels."""
    groups = group_count(conv, w)
    return w.static_shape[0] if conv.type == "Conv" else w.static_shape[1] * groups


def input_channels(conv: Op, w: Value) -> int:
    """The number of input channels."""
    groups = group_count(conv, w)
    return w.static_shape[1] * groups if conv.type == "Conv" else w.static_shape[0]


def weights_as_float64(w: Value) -> Array:
    """A new array of the weights in float64, from which others are made to take their place."""
    require_replaceable(w)
    return w.const.astype(np.float64)


def grouped_weights(conv: Op, w: Value) -> Array:
    """The weights in float64, with the groups as a dim of their own in front."""
    groups = group_count(conv, w)
    require(0 not in w.static_shape, f"{w.name} is empty")
    return weights_as_float64(w).reshape(groups, -1, *w.static_shape[1:])


def require_replaceable(w: Value) -> None:
    """Other weights may take the place of `w` unless its other readers make that too many large copies."""
    require(w.tensor is not None, f"{w.name} is not a constant")
    copied = 0 if w.tensor is None else w.tensor.nbytes * (len(w.consumers) - 1)
    require(copied <= MAX_COPIED_BYTES, f"{w.name} is large and used elsewhere")


def per_channel(c: Value, rank: int, channels: int) -> Array:
    """A constant of one number, or one for each of the channels of something of `rank` dims; in float64."""
    require(rank >= 3, "it has no channels")
    require(c.tensor is not None and c.tensor.size in {1, channels}, f"{c.name} has not one number for each channel")
    return values_along_axis(c, rank, 1)


def scaled_weights(conv: Op, w: Value, k: Array, axes: dict[str, int]) -> Array:
    """The weights times `k`, which has one number or one for each channel; `axes` is OUTPUTS or INPUTS."""
    weights = grouped_weights(conv, w)
    axis = axes[conv.type]
    per = np.broadcast_to(k, weights.shape[0] * weights.shape[axis])
    dims = [weights.shape[i] if i in {0, axis} else 1 for i in range(weights.ndim)]
    return (weights * per.reshape(dims)).reshape(w.static_shape)


def fold_affine(g: RewriteBuilder, conv: Op, k: Array, shift: Array) -> Value:
    """The convolution that gives `k * y + shift` where `conv` gives y; one number each, or one for each channel."""
    x, w, b = conv.input(0), operand(conv, 1), conv.input(2)
    require(w.is_const, "the weights are computed")
    channels = output_channels(conv, w)
    require({k.size, shift.size} <= {1, channels}, "there is not one number for each channel")
    bias = None
    if b is not None or shift.any():
        require_no_rounding(b)
        old = np.zeros(1) if b is None else b.const.astype(np.float64)
        bias = np.broadcast_to(sum_of_constants(w, old * k, shift), channels)
    require(bool(np.isfinite(k).all()), "a scale is infinite or not a number")
    new = downcast_constant(g, scaled_weights(conv, w, k, OUTPUT_AXIS), w) if (k != 1).any() else w
    return getattr(g, conv.type)(x, new, None if bias is None else downcast_constant(g, bias, w), **conv.attrs)


def shifted_bias(conv: Op, w: Value, shift: Array) -> Array:
    """The bias of a Conv without padding whose input is no longer shifted, by one number or one for each channel."""
    weights, b = grouped_weights(conv, w), conv.input(2)
    groups, outputs, inputs = weights.shape[:3]
    taps = weights.reshape(groups, outputs, inputs, -1).sum(axis=-1)
    added = (taps @ np.broadcast_to(shift, groups * inputs).reshape(groups, inputs, 1)).reshape(-1)
    require_no_rounding(b)
    return added if b is None else sum_of_constants(w, b.const.astype(np.float64), added)


class Window(Struct, frozen=True):
    """For each spatial axis; `pads` has all begins, then all ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    @classmethod
    def point(cls, n: int) -> Window:
        """The window of one element, which moves by one along each of `n` axes."""
        return cls((1,) * n, (1,) * n, (1,) * n, (0,) * 2 * n)

    @property
    def span(self) -> tuple[int, ...]:
        """The distance of the last tap from the first."""
        return tuple(d * (k - 1) for d, k in zip(self.dilations, self.kernel, strict=True))

    @property
    def output_growth(self) -> tuple[int, ...]:
        """By how much the output is larger than the input, before strides."""
        n = len(self.kernel)
        return tuple(self.pads[i] + self.pads[i + n] - r for i, r in enumerate(self.span))

    @property
    def attrs(self) -> dict[str, Any]:
        """The window as attributes."""
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "pads": list(self.pads),
        }


def conv_window(conv: Op, w: Value, x: Value | None = None) -> Window:
    """The window of a Conv with weights `w`; declines where padding depends on an extent of `x` that is not known."""
    return parse_window(conv, w.static_shape[2:], x)


def parse_window(op: Op, kernel: Sequence[int], x: Value | None = None) -> Window:
    """The window of a Conv or a pool with that kernel."""
    n = len(kernel)
    strides = tuple(op.attr("strides") or [1] * n)
    dilations = tuple(op.attr("dilations") or [1] * n)
    pads = tuple(op.attr("pads") or [0] * 2 * n)
    require(len(strides) == len(dilations) == n and len(pads) == 2 * n, "the attributes do not fit the kernel")
    bare = Window(tuple(kernel), strides, dilations, (0,) * 2 * n)
    mode = op.attr("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return Window(bare.kernel, strides, dilations, pads)
    if mode == "VALID":
        return bare
    require(mode in {"SAME_UPPER", "SAME_LOWER"}, f"auto_pad is {mode}")
    totals = [same_padding(x, i + 2, strides[i], reach) for i, reach in enumerate(bare.span)]
    less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
    begins, ends = (less, more) if mode == "SAME_UPPER" else (more, less)
    return Window(bare.kernel, strides, dilations, (*begins, *ends))


def same_padding(x: Value | None, axis: int, stride: int, span: int) -> int:
    """The total SAME padding of an axis (operator Conv, auto_pad): the output has ceil(extent / stride)."""
    if stride == 1 or span == 0:
        return span
    extent = known_extent(known(x, "the amount of padding depends on an unknown extent"), axis)
    return max((-(-extent // stride) - 1) * stride + span + 1 - extent, 0)


def union(a: Window, b: Window) -> Window:
    """The least window with the taps of both; declines where their outputs differ in extent or their taps in step."""
    require(a.strides == b.strides, "the strides differ")
    require(a.output_growth == b.output_growth, "the extents of the outputs differ")
    n = len(a.kernel)
    kernel, dilations, begins = [0] * n, [1] * n, [0] * n
    for i in range(n):
        step = a.dilations[i] if a.kernel[i] > 1 else b.dilations[i]
        require(b.kernel[i] == 1 or b.dilations[i] == step, "the dilations differ")
        begins[i] = max(a.pads[i], b.pads[i])
        last = max(a.span[i] - a.pads[i], b.span[i] - b.pads[i])
        require((a.pads[i] - b.pads[i]) % step == 0 and (last + begins[i]) % step == 0, "the taps do not coincide")
        kernel[i], dilations[i] = (last + begins[i]) // step + 1, step
    ends = [a.output_growth[i] + dilations[i] * (kernel[i] - 1) - begins[i] for i in range(n)]
    require(min(ends) >= 0 and min(begins) >= 0, "the padding is negative")
    return Window(tuple(kernel), a.strides, tuple(dilations), (*begins, *ends))


def tap_slices(inner: Window, outer: Window) -> tuple[slice, ...]:
    """The taps of `inner` as slices of the taps of `outer`, which has them all."""
    begins = [(o - i) // d for o, i, d in zip(outer.pads, inner.pads, outer.dilations, strict=False)]
    return tuple(slice(b, b + k) for b, k in zip(begins, inner.kernel, strict=True))
