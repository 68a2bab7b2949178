"""Ops that change extents and keep the rank: Pad, Slice, Tile, Expand, Resize; and Shape, which tells of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core import Op, Value, broadcasts_to, require
from ...support.operand_queries import constant_integers, operand
from .layout import Layout, inverse
from .layout_rewrite import LayoutRequest, LayoutRewrite, attribute_or_constant, axes_in_layout, constant_input


def pad(request: LayoutRequest) -> LayoutRewrite:
    """Pad: constant pads are put in order; of others, since opset 18, the axes are named."""
    op, layout = request.op, request.layout_at()
    value = op.input(2)
    require(value is None or value.rank == 0 or value.shape == (1,), "the pad value is not one number")
    rank = len(layout)
    pads = operand(op, 1) if op.version >= 11 else None
    if op.version >= 18 and (op.input(3) is not None or (pads is not None and not pads.is_const)):
        axes = constant_input(op, 3) if op.input(3) is not None else range(rank)
        kind = np.int64 if (given := op.input(3)) is None else given.const.dtype
        return request.rewrite({0: layout}, {0: layout}, constants={3: np.asarray(axes_in_layout(axes, layout), kind)})
    numbers = constant_integers(op, "pads")
    require(numbers is not None and len(numbers) == 2 * rank, "the pads do not cover all axes")
    assert numbers is not None
    ordered = [numbers[axis] for axis in layout] + [numbers[rank + axis] for axis in layout]
    return request.rewrite({0: layout}, {0: layout}, **attribute_or_constant(op, "pads", 1, ordered))


def slice_(request: LayoutRequest) -> LayoutRewrite:
    """Slice along constant axes."""
    op, layout = request.op, request.layout_at()
    axes = constant_integers(op, "axes")
    kind: Any = np.int64
    if axes is None:
        axes = range(len(op.attr("starts"))) if op.version < 10 else range(_length(op, 1))
    elif op.version >= 10:
        kind = operand(op, 3).const.dtype
    moved = axes_in_layout(axes, layout)
    if op.version >= 10 and op.input(3) is None:
        kind = {6: np.int32, 7: np.int64}[operand(op, 1).dtype]  # axes have the type of starts
    if op.version < 10:
        return request.rewrite({0: layout}, {0: layout}, attrs={"axes": moved})
    return request.rewrite({0: layout}, {0: layout}, constants={3: np.asarray(moved, kind)})


def _length(op: Op, index: int) -> int:
    (length,) = operand(op, index).static_shape
    return length


def tile(request: LayoutRequest) -> LayoutRewrite:
    """Tile with constant repeats."""
    op, layout = request.op, request.layout_at()
    repeats = constant_input(op, 1)
    require(len(repeats) == len(layout), "the op does not have one number for each axis")
    return request.rewrite({0: layout}, {0: layout}, constants={1: np.asarray([repeats[a] for a in layout], np.int64)})


def expand(request: LayoutRequest) -> LayoutRewrite:
    """Expand to a constant shape, of the rank of the data."""
    op, layout = request.op, request.layout_at()
    extents = constant_input(op, 1)
    require(len(extents) <= operand(op, 0).rank, "the op raises the rank")
    full = [1] * (len(layout) - len(extents)) + extents
    # onnxruntime copies what follows the last axis that is stretched at once: here, number by number.
    stretched = [old == 1 != new for old, new in zip(operand(op, 0).shape, full, strict=True)]
    require(not stretched[layout[-1]] or stretched[-1], "the innermost axis would be repeated")
    return request.rewrite({0: layout}, {0: layout}, constants={1: np.asarray([full[a] for a in layout], np.int64)})


def resize(request: LayoutRequest) -> LayoutRewrite:
    """Resize by constant scales or sizes; by linear and cubic interpolation only as onnxruntime does it anyhow."""
    op, layout = request.op, request.layout_at()
    require(op.version >= 11, "before opset 11, it is another operator")
    require(op.attr("coordinate_transformation_mode") != "tf_crop_and_resize", "the op crops")
    nearest = op.attr("mode") == "nearest"
    require(nearest or _keeps_leading_axes(op, layout), "onnxruntime interpolates along the last axes")
    if op.attr("axes") is not None:
        named = {"axes": axes_in_layout(op.attr("axes"), layout)}
        return request.rewrite({0: layout}, {0: layout}, attrs=named, exact=nearest)
    by = 3 if _is_given(op, 3) else 2
    numbers = operand(op, by).const
    require(numbers.shape == (len(layout),), "the op does not have one number for each axis")
    return request.rewrite({0: layout}, {0: layout}, constants={by: numbers[list(layout)]}, exact=nearest)


def _is_given(op: Op, index: int) -> bool:
    """Whether an input is given; an empty one counts as left out (operator Resize, version 11)."""
    value = op.input(index)
    return value is not None and value.known_shape != (0,)


def _keeps_leading_axes(op: Op, layout: Layout) -> bool:
    """Whether the first two of four axes, in the layout, are not resized."""
    x, y = operand(op, 0).shape, op.outputs[0].shape
    if len(layout) != 4:
        return False
    if _is_given(op, 2) and op.attr("axes") is None:
        scales = operand(op, 2).const
        return all(scales[axis] == 1 for axis in layout[:2])
    return all(broadcasts_to((x[axis],), (y[axis],)) for axis in layout[:2])


def size(request: LayoutRequest) -> LayoutRewrite:
    """Size: it is the same in all layouts."""
    return request.rewrite({0: request.layout_at((0,), ())}, {})


def shape(request: LayoutRequest) -> LayoutRewrite:
    """Shape: extents that are picked by number are picked by another; else a Gather puts them back in order."""
    op, layout = request.op, request.layout_at((0,), ())
    picked = inverse(layout)[slice(op.attr("start", 0), op.attr("end"))]
    require(picked, "the op has no outputs")
    result = op.outputs[0]
    shown = op.graph.is_output(result) or result in op.graph.pinned
    extra = shown or not all(is_constant_gather(user, result, len(picked)) for user in result.consumers)
    return request.rewrite(
        {0: layout}, {}, attrs={"start": None, "end": None}, gather_order=picked, extra_nodes=int(extra)
    )


def is_constant_gather(reader: Op, numbers: Value, count: int) -> bool:
    """Whether an op is a Gather of some of `count` numbers by constant indices."""
    if reader.type != "Gather" or reader.domain or reader.graph is not (numbers.producer or reader).graph:
        return False
    index = reader.inputs[1]
    if reader.inputs[0] is not numbers or index is None or not index.is_const or reader.attr("axis", 0) not in {0, -1}:
        return False
    return bool(((index.const >= -count) & (index.const < count)).all())
