"""Products of the channels of images with matrices, as pointwise convolutions of the images.

`convolve-products`: Products of the channels of images become convolutions where images of fewer channels are turned
over for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import Op, RewriteBuilder, Value, require, rule
from ...core.ir.expressions import Shape
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ..movement.reshapes import reshape_target
from ..support.operand_queries import (
    downcast_constant,
    has_n_consumers,
    inferred_shape,
    operand,
    require_no_rounding,
    same_shape,
    values_along_axis,
)
from .conv_merging import weighted_conv
from .products import Product, weighted_product

UNARY = tuple(sorted(ops_with(Trait.ELEMENTWISE) & ops_with(Trait.SAME_DTYPE)))
FEWEST_POINTS = 16  # with fewer, products of all samples together are faster (of 8 samples with one point, twice)
SWAPPED = [0, 2, 1]  # (batch, points, channels) to (batch, channels, points), and back


def product(g: Any, x: Any, w: Any, op: Any) -> Any:
    """The pattern of a MatMul with constant weights."""
    return g.MatMul(x, g.const(w)) @ op


def split_image(g: Any, rows: Any, turn: Any, split: Any) -> Any:
    """The pattern of an image with `rows` of channels."""
    return g.Reshape(g.Transpose(rows) @ turn, ...) @ split


def merged_image(g: Any, conv: Any, merge: Any, turn: Any) -> Any:
    """The pattern of the rows of channels of an image that a Conv computes."""
    return g.Transpose(g.Reshape(g.Conv(...) @ conv, ...) @ merge) @ turn


@rule(
    lambda g, x, w, v, op, turn, split, conv: weighted_conv(
        g, split_image(g, product(g, x, w, op), turn, split), v, conv
    ),
    lambda g, x, w, c, v, op, turn, split, conv: weighted_conv(
        g, split_image(g, g.Add(product(g, x, w, op), g.const(c)), turn, split), v, conv
    ),
    group="convolve-products",
)
def convolve_before_conv(
    g: RewriteBuilder, x: Value, v: Value, op: Op, turn: Op, split: Op, conv: Op, c: Value | None = None
) -> Value:  # fmt: skip
    """Conv(Reshape(Transpose(x @ w + c)), v) => Conv(Conv(Reshape(Transpose(x)), w 1x1, c), v), of fewer channels"""
    p, image = weighted_product(op), inferred_shape(split)
    rows, columns = p.extents
    merges = set(v.static_shape[2:]) == {1} and conv.attr("group", 1) == 1
    require_points(turn, turn.outputs[0].shape, image)
    require_fewer_channels(rows, columns, merges=merges)
    turned = g.Transpose(x, perm=SWAPPED)
    narrow = g.Reshape(turned, shape=reshape_target(turned, (image[0], rows, *image[2:]), split))
    return g.Conv(pointwise_conv(g, p, narrow, c), operand(conv, 1), conv.input(2), **conv.attrs)


@rule(
    lambda g, w, c, conv, merge, turn, op: g.Add(product(g, merged_image(g, conv, merge, turn), w, op), g.const(c)),
    lambda g, w, conv, merge, turn, op: product(g, merged_image(g, conv, merge, turn), w, op),
    lambda g, w, c, conv, merge, turn, f, op: g.Add(
        product(g, g.one_of(*UNARY)(merged_image(g, conv, merge, turn), ...) @ f, w, op), g.const(c)
    ),
    lambda g, w, conv, merge, turn, f, op: product(
        g, g.one_of(*UNARY)(merged_image(g, conv, merge, turn), ...) @ f, w, op
    ),
    group="convolve-products",
)
def convolve_after_conv(
    g: RewriteBuilder, conv: Op, merge: Op, turn: Op, op: Op, f: Op | None = None, c: Value | None = None
) -> Value:  # fmt: skip
    """f(Transpose(Reshape(Conv(x)))) @ w + c => Transpose(Reshape(Conv(f(Conv(x)), w 1x1, c))), of fewer channels"""
    p, y, merged = weighted_product(op), conv.outputs[0], inferred_shape(merge)
    rows, columns = p.extents
    require(c is not None or not adds_row(op), "its bias belongs to it")
    require_points(turn, merged, y.shape)
    require_fewer_channels(columns, rows, merges=f is None and conv.attr("group", 1) == 1)
    z = y if f is None else getattr(g, f.type)(y, *f.inputs[1:], **f.attrs)
    narrow = pointwise_conv(g, p, z, c)
    shape = reshape_target(narrow, (merged[0], columns, merged[2]), merge)
    return g.Transpose(g.Reshape(narrow, shape=shape), perm=SWAPPED)


def require_points(turn: Op, rows: Shape, image: Shape) -> None:
    """Decline unless `turn` swaps points and channels, and `rows` has the (batch, channels, points) of `image`."""
    require(turn.attr("perm") == SWAPPED, "points and channels are not swapped")
    require(len(rows) == 3 and same_shape(rows[:2], image[:2]), "the Reshape changes more than the dim of the points")
    require(not isinstance(rows[2], int) or rows[2] >= FEWEST_POINTS, "there are few points")


def require_fewer_channels(after: int, before: int, *, merges: bool) -> None:
    """Decline unless fewer channels are moved, or as many, and the convolutions merge."""
    require(0 < after < before or (0 < after == before and merges), "no fewer channels would be moved")


def adds_row(op: Op) -> bool:
    """Whether the only reader of `op` adds constants to it."""
    out = op.outputs[0]
    return has_n_consumers(out) and any(
        r.type == "Add" and any(v is not None and v.is_const for v in r.inputs) for r in out.consumers
    )


def pointwise_conv(g: RewriteBuilder, p: Product, x: Value, c: Value | None) -> Value:
    """`p` + `c` at each point of an image `x`."""
    require(p.b.rank == 2, "the weights differ between samples")
    require_no_rounding(c)
    weights = p.b.const.T.reshape(*p.b.static_shape[::-1], *[1] * (x.rank - 2))
    b = None if c is None else np.broadcast_to(values_along_axis(c, p.a.rank, -1), p.extents[1:])
    return g.Conv(x, g.const(weights), None if b is None else downcast_constant(g, b, p.b))
