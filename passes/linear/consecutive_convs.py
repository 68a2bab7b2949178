"""Two convolutions in a row are one where one of them looks at single points, if that costs no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core import Build, Op, RulePass, Value, conditional, require, rule
from ..support.operand_queries import Array, downcast_weights
from .convolution import group_count, grouped_weights
from .sliding_window import Window, conv_window

# Infinities of both signs make NaN where they are added up; one convolution may never form one of them.
FINITE_INTERMEDIATE = conditional("what the first convolution gives is finite")


@rule(
    lambda g, x, w, v, first, second, b=None, c=None: g.Conv(g.Conv(x, g.const(w), b) @ first, g.const(v), c) @ second,
    contract=FINITE_INTERMEDIATE,
)
def merge_conv_with_pointwise(
    g: Build, x: Value, w: Value, b: Value | None, v: Value, c: Value | None, first: Op, second: Op
) -> Value:
    """Conv(Conv(x, w, b), v 1x1, c) => Conv(x, v @ w, v @ b + c)"""
    points = pointwise_window(second, v)
    stepping = set(points.strides) != {1}
    require(not stepping or first.attr("auto_pad", "NOTSET") in {"NOTSET", "VALID"}, "SAME padding depends on strides")
    require_no_growth(first, w, second, v, w)
    left, right = grouped_weights(second, v), grouped_weights(first, w)
    with np.errstate(all="ignore"):
        merged = left.reshape(*left.shape[:3]) @ right.reshape(*right.shape[:2], -1)
    strides = (
        [a * b for a, b in zip(conv_window(first, w, x).strides, points.strides, strict=True)] if stepping else None
    )
    attrs = {**first.attrs, **({"strides": strides} if stepping else {})}
    return build_conv(
        g, x, merged.reshape(v.static_shape[0], *w.static_shape[1:]), merged_bias(second, v, b, c), w, attrs
    )


@rule(
    lambda g, x, w, v, first, second, b=None, c=None: g.Conv(g.Conv(x, g.const(w), b) @ first, g.const(v), c) @ second,
    contract=FINITE_INTERMEDIATE,
)
def merge_pointwise_with_conv(
    g: Build, x: Value, w: Value, b: Value | None, v: Value, c: Value | None, first: Op, second: Op
) -> Value:
    """Conv(Conv(x, w 1x1, b), v, c) => Conv(x, v @ w, sum(v @ b) + c), nothing padded or b = 0"""
    points = pointwise_window(first, w)
    require(set(points.strides) == {1}, "the first steps over points")
    shifts = b is not None and bool(b.const.any())
    require(not shifts or not any(conv_window(second, v).pads), "the zeros of the padding would be shifted")
    require_no_growth(first, w, second, v, v)
    left, right = grouped_weights(second, v), grouped_weights(first, w)
    taps = np.moveaxis(left.reshape(*left.shape[:3], -1), 2, 3)  # (groups, outputs, kernel, between)
    with np.errstate(all="ignore"):
        merged = np.moveaxis(taps @ right.reshape(len(right), 1, *right.shape[1:3]), 3, 2)
    shape = (v.static_shape[0], w.static_shape[1], *v.static_shape[2:])
    return build_conv(g, x, merged.reshape(shape), merged_bias(second, v, b, c), v, dict(second.attrs))


def pointwise_window(conv: Op, w: Value) -> Window:
    """The window of a convolution with a kernel of one point and no padding."""
    require(set(w.static_shape[2:]) == {1}, "the kernel is larger than a point")
    points = conv_window(conv, w)
    require(not any(points.pads), "it pads")
    return points


def require_no_growth(first: Op, w: Value, second: Op, v: Value, kernel: Value) -> None:
    """One convolution with the window of `kernel` needs no more weights, and so no more products, than the two."""
    groups = group_count(first, w)
    require(groups == group_count(second, v), "the groups differ")
    between = w.static_shape[0]
    require(between == v.static_shape[1] * groups, "the weights do not fit")
    taps = int(np.prod(kernel.static_shape[2:]))
    merged = v.static_shape[0] * w.static_shape[1] * taps
    require(w.tensor is not None and v.tensor is not None and merged <= w.tensor.size + v.tensor.size, "it costs more")


def merged_bias(second: Op, v: Value, b: Value | None, c: Value | None) -> Array | None:
    """What the second convolution makes of the first one's bias, and its own; None without either."""
    if b is None:
        return None if c is None else c.const.astype(np.float64)
    weights = grouped_weights(second, v)
    groups, outputs, inputs = weights.shape[:3]
    per = b.const.astype(np.float64).reshape(groups, inputs, 1)
    with np.errstate(all="ignore"):
        made = (weights.reshape(groups, outputs, inputs, -1).sum(axis=-1) @ per).reshape(-1)
        return made if c is None else made + c.const


def build_conv(g: Build, x: Value, weights: Array, bias: Array | None, like: Value, attrs: Mapping[str, Any]) -> Value:
    """A Conv with new weights of the type of `like`."""
    kind = np.dtype(like.const.dtype)
    made: Value = g.Conv(
        x,
        g.const(downcast_weights(weights, kind)),
        None if bias is None else g.const(downcast_weights(bias, kind)),
        **attrs,
    )
    return made


MERGE_CONSECUTIVE_CONVS = RulePass("merge-consecutive-convs", (merge_conv_with_pointwise, merge_pointwise_with_conv))
