"""Merging of parallel convolutions of one value whose outputs are added, and of a convolution with its input.

Training forms of RepVGG, ACNet, MobileOne and RepLKNet have such branches and are deployed without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...core import Build, Op, RulePass, Value, conditional, require, rule
from ..support.operand_queries import Array, downcast_weights
from .affine import ONE, ZERO, Affine, required_affine
from .convolution import group_count, input_channels, weights_as_float64
from .sliding_window import Window, conv_window, tap_slices, union

# Infinities of both signs make NaN where they are added up; one convolution may never form one of them.
FINITE_BRANCHES = conditional("what the branches give is finite")


@dataclass(frozen=True, slots=True)
class ConvBranch:
    """A Conv that is one of several: its op, weights, bias, and where it looks."""

    conv: Op
    w: Value
    b: Value | None
    window: Window

    @classmethod
    def of(cls, conv: Op, w: Value, b: Value | None) -> ConvBranch:
        """The branch that `conv` is."""
        require(b is None or b.is_const, "the bias is computed")
        return cls(conv, w, b, conv_window(conv, w, conv.input(0)))

    @property
    def bias(self) -> Array:
        """The bias in float64."""
        return np.zeros(1) if self.b is None else self.b.const.astype(np.float64)


@rule(
    lambda g, x, w, v, p, q, op, b=None, c=None: (
        g.one_of("Add", "Sub")(g.Conv(x, g.const(w), b) @ p, g.Conv(x, g.const(v), c) @ q) @ op
    ),
    contract=FINITE_BRANCHES,
)
def merge_parallel_convs(
    g: Build, x: Value, w: Value, b: Value | None, v: Value, c: Value | None, p: Op, q: Op, op: Op
) -> Value:
    """Conv(x, w, b) + Conv(x, v, c) => Conv(x, w + v, b + c), the smaller kernel padded with zeros"""
    require(op.version >= 7, "before opset 7 an attribute says how to broadcast")
    return sum_of_convs(g, x, ConvBranch.of(p, w, b), ConvBranch.of(q, v, c), -1 if op.type == "Sub" else 1)


@rule(
    lambda g, x, a, w, v, p, q, inner, op, b=None, c=None: (
        g.Add(g.Add(a, g.Conv(x, g.const(w), b) @ p) @ inner, g.Conv(x, g.const(v), c) @ q) @ op
    ),
    contract=FINITE_BRANCHES,
)
def merge_parallel_convs_of_sum(
    g: Build,
    x: Value,
    a: Value,
    w: Value,
    b: Value | None,
    v: Value,
    c: Value | None,
    p: Op,
    q: Op,
    op: Op,
) -> Value:
    """(a + Conv(x, w, b)) + Conv(x, v, c) => a + Conv(x, w + v, b + c)"""
    require(op.version >= 7, "before opset 7 an attribute says how to broadcast")
    made: Value = g.Add(a, sum_of_convs(g, x, ConvBranch.of(p, w, b), ConvBranch.of(q, v, c), 1))
    return made


@rule(
    lambda g, x, w, v, before, between, after, p, q, b=None, c=None: g.Sum(
        *before, g.Conv(x, g.const(w), b) @ p, *between, g.Conv(x, g.const(v), c) @ q, *after
    ),
    contract=FINITE_BRANCHES,
)
def merge_parallel_convs_in_sum_op(
    g: Build,
    x: Value,
    w: Value,
    b: Value | None,
    v: Value,
    c: Value | None,
    p: Op,
    q: Op,
    before: tuple[Value, ...],
    between: tuple[Value, ...],
    after: tuple[Value, ...],
) -> Value:
    """Sum(..., Conv(x, w, b), ..., Conv(x, v, c), ...) => Sum(..., Conv(x, w + v, b + c), ...)"""
    one = sum_of_convs(g, x, ConvBranch.of(p, w, b), ConvBranch.of(q, v, c), 1)
    others = (*before, *between, *after)
    made: Value = g.Sum(*before, one, *between, *after) if others else one
    return made


@rule(lambda g, x, w, conv, op, b=None: g.Add(g.Conv(x, g.const(w), b) @ conv, x) @ op, contract=FINITE_BRANCHES)
def merge_conv_with_identity(g: Build, x: Value, w: Value, b: Value | None, conv: Op, op: Op) -> Value:
    """Conv(x, w, b) + x => Conv(x, w + 1 in the centre, b)"""
    require(op.version >= 7, "before opset 7 an attribute says how to broadcast")
    return conv_plus_affine(g, x, ConvBranch.of(conv, w, b), (ONE, ZERO))


@rule(
    lambda g, x, w, conv, affine, op: (
        g.Add(g.Conv(x, g.const(w), ...) @ conv, g.one_of("Mul", "BatchNormalization")(..., x, ...) @ affine) @ op
    ),
    contract=FINITE_BRANCHES,
)
def merge_conv_with_affine(g: Build, x: Value, w: Value, conv: Op, affine: Op, op: Op) -> Value:
    """Conv(x, w, b) + (k * x + c) => Conv(x, w + k in the centre, b + c)"""
    require(op.version >= 7, "before opset 7 an attribute says how to broadcast")
    k_and_c = required_affine(affine, x, w.rank, input_channels(conv, w))
    return conv_plus_affine(g, x, ConvBranch.of(conv, w, conv.input(2)), k_and_c)


def sum_of_convs(g: Build, x: Value, a: ConvBranch, b: ConvBranch, sign: int) -> Value:
    """The Conv that gives a + sign * b, which must not have more weights than the two."""
    groups = group_count(a.conv, a.w)
    require(groups == group_count(b.conv, b.w), "the groups differ")
    shape = a.w.static_shape[:2]
    require(shape == b.w.static_shape[:2] and a.w.rank == b.w.rank, "the channels differ")
    both = union(a.window, b.window)
    require(prod(both.kernel) <= prod(a.window.kernel) + prod(b.window.kernel), "it costs more")
    weights = np.zeros((*shape, *both.kernel))
    with np.errstate(all="ignore"):
        weights[:, :, *tap_slices(a.window, both)] += weights_as_float64(a.w)
        weights[:, :, *tap_slices(b.window, both)] += sign * weights_as_float64(b.w)
    has_bias = a.b is not None or b.b is not None
    like = b if both == b.window != a.window else a
    return build_conv(g, x, like, weights, a.bias + sign * b.bias if has_bias else None, both)


def conv_plus_affine(g: Build, x: Value, a: ConvBranch, affine: Affine) -> Value:
    """The Conv that gives a + k * x + shift, with no more weights than `a` has."""
    k, shift = affine
    groups = group_count(a.conv, a.w)
    outputs, inputs = a.w.static_shape[:2]
    require(outputs == inputs * groups, "the channels differ in number")
    point = Window.point(len(a.window.kernel))
    both = union(a.window, point)
    require(both.kernel == a.window.kernel, "it costs more")
    weights = weights_as_float64(a.w)
    centre = [s.start for s in tap_slices(point, both)]
    rows = np.arange(outputs)
    with np.errstate(all="ignore"):
        weights[rows, rows % inputs, *centre] += np.broadcast_to(k, outputs)
    has_bias = a.b is not None or bool(shift.any())
    return build_conv(g, x, a, weights, a.bias + shift if has_bias else None, both)


def build_conv(g: Build, x: Value, like: ConvBranch, weights: Array, bias: Array | None, target: Window) -> Value:
    """A Conv with these weights; its attributes are those of `like` where it looks where that does."""
    kind = np.dtype(like.w.const.dtype)
    attrs = dict(like.conv.attrs)
    if target != like.window:
        attrs = {**target.attrs, "group": int(like.conv.attr("group", 1))}
    per = None if bias is None else np.broadcast_to(bias, len(weights))
    b = None if per is None else g.const(downcast_weights(per, kind))
    made: Value = g.Conv(x, g.const(downcast_weights(weights, kind)), b, **attrs)
    return made


MERGE_PARALLEL_CONVS = RulePass(
    "merge-parallel-convs",
    (
        merge_parallel_convs,
        merge_conv_with_identity,
        merge_conv_with_affine,
        merge_parallel_convs_in_sum_op,
        merge_parallel_convs_of_sum,
    ),
)
