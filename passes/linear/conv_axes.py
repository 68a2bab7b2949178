"""Convolutions along one axis with one spatial axis or with two, whichever onnxruntime computes faster.

`lift-convs`: Convolutions of one spatial axis get a second axis, as onnxruntime runs convolutions of two on blocks of
channels; convolutions along the first of two axes, with long kernels and padding, get one axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ...core import Op, RewriteBuilder, Value, require, rule
from ..support.operand_queries import known_extent
from .conv_merging import weighted_conv
from .convolution import conv_window, group_count, require_replaceable

BLOCK = 16  # channels that are laid out together, or 8
FEWEST_CHANNELS = 64  # of a Conv without groups; with fewer it takes 0.7 to 1.1 of the time
LONG = 16  # points of a kernel, from which one along the first axis takes 1.4 to 3 times as long, if there is padding
MOST_PADDED = 0.4  # of the outputs: in blocks of channels, one that reads padding takes about three times as long


@rule(weighted_conv, group="lift-convs")
def lift_conv(g: RewriteBuilder, x: Value, w: Value, op: Op) -> Value:
    """Conv(x, w) => Squeeze(Conv(Unsqueeze(x), w)), with an axis of extent 1 before the spatial one"""
    require(w.rank == 3, "there is not one spatial axis")
    require(w.dtype == TensorProto.FLOAT, "only for single precision there is a faster kernel")
    require_blocks(op, w)
    extent = op.outputs[0].shape[2]
    if isinstance(extent, int):
        around = conv_window(op, w, x)
        padded = sum(-(-pad // around.strides[0]) for pad in around.pads)
        require(padded <= MOST_PADDED * extent, "many outputs read padding")
    require_replaceable(w)
    weights = g.const(np.expand_dims(w.const, 2))
    lifted = g.Conv(g.Unsqueeze(x, axes=[2]), weights, op.input(2), **lifted_attributes(op, w.static_shape[2]))
    return g.Squeeze(lifted, axes=[2])


@rule(weighted_conv, group="lift-convs")
def flatten_conv(g: RewriteBuilder, x: Value, w: Value, op: Op) -> Value:
    """Conv(x, w) => Unsqueeze(Conv(Squeeze(x), w)), without the last axis, of extent 1, if the kernel is long

    Only the kernel of blocks leaves out the points of padding: with 64 points on 16 and on 8 elements, the Conv of one
    axis took 1.4 and 3.2 times as long, on 32 elements 0.8 times.
    """
    require(w.rank == 4 and w.static_shape[3] == 1 and w.static_shape[2] >= LONG, "no long kernel along the first axis")
    require(w.dtype == TensorProto.FLOAT, "kernels of other types were not measured")
    require(known_extent(x, 3) == 1, "there are several columns")
    around = conv_window(op, w, x)
    require(any(around.pads[::2]), "without padding it is fast")
    extent, reach = x.shape[2], 1 + (around.kernel[0] - 1) * around.dilations[0]
    require(not isinstance(extent, int) or 2 * extent >= reach, "most points of the kernel read padding")
    require(not any(around.pads[1::2]), "it pads the columns")
    require_replaceable(w)
    narrow = g.Conv(
        g.Squeeze(x, axes=[3]), g.const(w.const.reshape(w.static_shape[:3])), op.input(2), group=group_count(op, w),
        kernel_shape=around.kernel[:1], strides=around.strides[:1], dilations=around.dilations[:1],
        pads=around.pads[::2],
    )  # fmt: skip
    return g.Unsqueeze(narrow, axes=[3])


def require_blocks(conv: Op, w: Value) -> None:
    """Decline channels that do not fill blocks, and numbers of channels with which the other kernel is as fast."""
    groups, (outputs, inputs, kernel) = group_count(conv, w), w.static_shape
    require(kernel > 1, "a kernel of one point is a matrix product")
    if groups == outputs and inputs == 1:
        require(groups % BLOCK == 0, "the channels do not fill blocks")
        return
    require(outputs // groups % BLOCK == inputs % BLOCK == 0, "the channels of a group do not fill blocks")
    fast = groups > 1 or (inputs >= FEWEST_CHANNELS and 2 * inputs >= outputs)
    require(fast, "there are few channels")


def lifted_attributes(conv: Op, kernel: int) -> dict[str, Any]:
    """The attributes with one more axis in front, along which the kernel is a point."""
    attrs = dict(conv.attrs) | {"kernel_shape": [1, kernel]}
    attrs |= {name: [1, *attrs[name]] for name in ("strides", "dilations") if name in attrs}
    if "pads" in attrs:
        begin, end = attrs["pads"]
        attrs["pads"] = [0, begin, 0, end]
    return attrs
