"""Pointwise convolutions moved before the Resize that makes their input larger.

`sink-resizes`: Pointwise convolutions run before the Resize of their inputs, on fewer elements.
"""

from __future__ import annotations

from math import prod

import numpy as np
from msgspec import Struct

from ...core import Graph, Op, RewriteBuilder, Value, conditional, require, rule
from ...core.ir.cost_model import CostModel, format_seconds
from ..support.operand_queries import (
    Array,
    Values,
    has_one_use,
    is_finite,
    known,
    known_extent,
    operand,
    required_producer,
    unless_declined,
)
from .conv_merging import pointwise_window, weighted_conv
from .convolution import group_count, require_replaceable

MODES = ("nearest", "linear", "cubic")
MAX_OPERANDS = 256  # of a Concat
# A Resize weights elements, some of them with 0, and infinities of both signs make NaN where they are added up.
FINITE_INPUTS = conditional("the inputs of the Resize and the outputs of the Conv are finite", each=is_finite)


class Resizing(Struct, frozen=True):
    """A value `x` as it is, or made larger by `op`: an interpolation with weights whose sum is 1, of channels alike.

    Resizings of one kind have equal `key`s.
    """

    x: Value
    op: Op | None = None
    growth: float = 1.0
    key: object = None

    def rebuild(self, g: RewriteBuilder, y: Value) -> Value:
        """Resize another value."""
        return y if self.op is None else getattr(g, self.op.type)(y, *self.op.inputs[1:], **self.op.attrs)


def read_resizing(graph: Graph, x: Value) -> Resizing:
    """The op of `graph` that computes `x` for nothing else; declines one that enlarges more than spatial axes."""
    op = required_producer(x, "Resize", "Upsample")
    require(op.graph is graph and has_one_use(x), f"{x.name} is used elsewhere")
    require(op.attr("mode", "nearest") in MODES, "it does not interpolate")
    require(op.attr("coordinate_transformation_mode") != "tf_crop_and_resize", "it takes values from elsewhere")
    given = operand(op, 2 if op.type == "Resize" and op.version >= 11 else 1).const.reshape(-1).tolist()
    axes, scales = op.attr("axes") or range(x.rank), [1.0] * x.rank
    require(len(given) == len(axes), "it is given sizes in place of scales")
    for axis, scale in zip(axes, given, strict=True):
        scales[axis] = scale
    require(set(scales[:2]) == {1} and min(scales) > 0 and prod(scales) > 1, "it makes other axes larger, or none")
    attrs = tuple(sorted((name, str(value)) for name, value in op.attrs.items()))
    return Resizing(operand(op), op, prod(scales), (op.type, *scales, attrs))


@rule(
    lambda g, x, w, conv: weighted_conv(g, g.one_of("Resize", "Upsample")(...) @ x, w, conv),
    contract=FINITE_INPUTS,
    group="sink-resizes",
)
def convolve_before_resize(g: RewriteBuilder, x: Op, w: Value, conv: Op) -> Value:
    """Conv(Resize(x), w 1x1, b) => Resize(Conv(x, w, b)), which is smaller, of no more channels than x"""
    return convolved_parts(g, (x.outputs[0],), w, conv)


@rule(
    lambda g, xs, w, concat, conv: weighted_conv(g, g.Concat(*xs) @ concat, w, conv),
    contract=FINITE_INPUTS,
    group="sink-resizes",
)
def convolve_parts_before_resize(g: RewriteBuilder, xs: Values, w: Value, concat: Op, conv: Op) -> Value:
    """Conv(Concat(Resize(x), z), [v w] 1x1, b) => Resize(Conv(x, v)) + Conv(z, w, b), where that takes less time"""
    require(int(concat.attr("axis", 1)) in {1, 1 - w.rank}, "the parts are not channels")
    require(1 < len(xs) <= MAX_OPERANDS, "there are too many parts, or only one")
    return convolved_parts(g, xs, w, conv)


def convolved_parts(g: RewriteBuilder, xs: Values, w: Value, conv: Op) -> Value:
    """The sum of the convolutions of parts of the channels, one for all that are resized in one way."""
    points = pointwise_window(conv, w)
    require(set(points.strides) == {1} and group_count(conv, w) == 1, "the Conv steps, or has groups")
    require(all(x.rank == w.rank for x in xs), "the ranks differ")
    require_replaceable(w)
    groups: dict[object, list[tuple[Value, Array]]] = {}
    resizings: dict[object, Resizing] = {}
    ends = np.cumsum([known_extent(x, 1) for x in xs])
    require(int(ends[-1]) == w.static_shape[1] and 0 not in np.diff(ends, prepend=0), "the weights do not fit")
    for x, part in zip(xs, np.split(w.const, ends[:-1], axis=1), strict=True):
        resizing = unless_declined(read_resizing, g.graph, x) or Resizing(x)
        resizings[resizing.key] = resizing
        groups.setdefault(resizing.key, []).append((resizing.x, part))
    channels = {key: sum(part.shape[1] for _, part in parts) for key, parts in groups.items()}
    require_less_time(g.graph.context.costs, conv.outputs[0], [(channels[key], r) for key, r in resizings.items()])
    total, b = None, conv.input(2)
    for key in sorted(groups, key=lambda key: key is not None):  # the bias belongs to a part that is not resized
        inputs = [x for x, _ in groups[key]]
        x = inputs[0] if len(inputs) == 1 else g.Concat(*inputs, axis=1)
        weights = w if len(groups) == 1 else g.const(np.concatenate([part for _, part in groups[key]], axis=1))
        made = resizings[key].rebuild(g, g.Conv(x, weights, b if total is None else None, **conv.attrs))
        total = made if total is None else g.Add(total, made)
    return known(total, "there are no parts")


def require_less_time(costs: CostModel, y: Value, parts: list[tuple[int, Resizing]]) -> None:
    """Decline unless products are saved, which take longer than the sums, and no more channels are resized."""
    outputs, added = known_extent(y, 1), len(parts) - 1
    resized = [channels for channels, resizing in parts if resizing.op is not None]
    require(bool(resized), "nothing is made larger by known scales for it alone")
    require(len(resized) * outputs <= sum(resized), "more channels would be resized")
    multiplied = sum(channels * (1 - 1 / resizing.growth) for channels, resizing in parts)
    saved = costs.multiplying_seconds(2 * costs.elements(y) * multiplied)
    spent = added * (2 * costs.op_seconds + costs.adding_seconds(costs.nbytes(y)))
    require(saved > spent, f"sums take {format_seconds(spent)} to save {format_seconds(saved)}")
