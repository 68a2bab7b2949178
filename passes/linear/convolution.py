"""The weights and channels of a convolution, and what becomes of them when channels are scaled and shifted."""

from __future__ import annotations

import numpy as np

from ...core import Build, Op, Value, require
from ..support.operand_queries import Array, downcast_weights, values_along_axis

CONVOLUTIONS = ("Conv", "ConvTranspose")
MAX_COPIED_BYTES = 16 << 20  # bytes by which copies of one weight may make the model larger
# Where weights lie by group: Conv has (groups, outputs, inputs, *kernel), ConvTranspose inputs before outputs.
OUTPUT_AXIS = {"Conv": 1, "ConvTranspose": 2}
INPUT_AXIS = {"Conv": 2, "ConvTranspose": 1}


def group_count(conv: Op, w: Value) -> int:
    """In how many groups the channels are; declines what does not fit the weights."""
    groups = int(conv.attr("group", 1))
    require(w.rank >= 3 and groups > 0 and w.static_shape[0] % groups == 0, f"{w.name} does not fit {groups} groups")
    return groups


def output_channels(conv: Op, w: Value) -> int:
    """How many channels come out."""
    groups = group_count(conv, w)
    return w.static_shape[0] if conv.type == "Conv" else w.static_shape[1] * groups


def input_channels(conv: Op, w: Value) -> int:
    """How many channels go in."""
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
    with np.errstate(all="ignore"):  # what overflows is looked at when it is narrowed
        return (weights * per.reshape(dims)).reshape(w.static_shape)


def fold_affine(g: Build, conv: Op, k: Array, shift: Array) -> Value:
    """The convolution that gives `k * y + shift` where `conv` gives y; one number each, or one for each channel."""
    x, w, b = conv.input(0), conv.inputs[1], conv.input(2)
    require(w is not None and w.is_const, "the weights are computed")
    assert w is not None
    channels = output_channels(conv, w)
    require({k.size, shift.size} <= {1, channels}, "there is not one number for each channel")
    scales = bool((k != 1).any())
    bias = None
    with np.errstate(all="ignore"):
        if b is not None or shift.any():
            old = np.zeros(1) if b is None else b.const.astype(np.float64)
            bias = np.broadcast_to(old * k + shift, channels)
    require(bool(np.isfinite(k).all()), "a scale is infinite or not a number")
    kind = np.dtype(w.const.dtype)
    new = g.const(downcast_weights(scaled_weights(conv, w, k, OUTPUT_AXIS), kind)) if scales else w
    add = g.ConvTranspose if conv.type == "ConvTranspose" else g.Conv
    made: Value = add(x, new, None if bias is None else g.const(downcast_weights(bias, kind)), **conv.attrs)
    return made
