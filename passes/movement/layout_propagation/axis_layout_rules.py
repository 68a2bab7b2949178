"""Ops along one axis, or along all that follow it, whose result has the rank of their data."""

from __future__ import annotations

import numpy as np

from ....core import Op, require
from ....core.inference.input_queries import normalized_axis
from ....core.ir.effects import writes_inputs
from ...support.operand_queries import operand
from .layout import Layout
from .layout_rewrite import LayoutRequest, LayoutRewrite, axes_in_layout, constant_input


def _axis_attribute(op: Op, layout: Layout, default: int) -> dict[str, int]:
    """The attribute `axis` for a value in `layout`."""
    return {"axis": axes_in_layout([op.attr("axis", default)], layout)[0]}


def softmax(request: LayoutRequest) -> LayoutRewrite:
    """Softmax and LogSoftmax: along one axis, before opset 13 along all from there on."""
    op, layout = request.op, request.layout_at()
    if op.version >= 13:
        return request.rewrite({0: layout}, {0: layout}, attrs=_axis_attribute(op, layout, -1), exact=False)
    start = normalized_axis(op, len(layout), 1)
    tail = range(start, len(layout))
    require(sorted(layout[start:]) == list(tail), "the axes from one on are reduced together")
    return request.rewrite({0: layout}, {0: layout}, exact=False)


def concat(request: LayoutRequest) -> LayoutRewrite:
    """Concat: all operands in one layout."""
    op, count = request.op, len(request.op.inputs)
    require("axis" in op.attrs, "the axis is missing")
    layout = request.layout_at(range(count))
    return request.rewrite(dict.fromkeys(range(count), layout), {0: layout}, attrs=_axis_attribute(op, layout, 0))


def split(request: LayoutRequest) -> LayoutRewrite:
    """Split: all pieces in one layout; how long they are stays."""
    count = len(request.op.outputs)
    layout = request.layout_at((0,), range(count))
    return request.rewrite(
        {0: layout}, dict.fromkeys(range(count), layout), attrs=_axis_attribute(request.op, layout, 0)
    )


def quantize(request: LayoutRequest) -> LayoutRewrite:
    """QuantizeLinear and DequantizeLinear, of a whole tensor or along an axis, not in blocks."""
    op, layout = request.op, request.layout_at()
    scale = operand(op, 1)
    require(not op.attr("block_size"), "the quantization is blocked")
    if scale.rank == 0 or op.version < 13:
        require(all(d == 1 for d in scale.shape), "it has one scale per channel")
        return request.rewrite({0: layout}, {0: layout})
    require(scale.rank == 1, "the quantization is blocked")
    if scale.shape == (1,) and not -len(layout) <= op.attr("axis", 1) < len(layout):
        return request.rewrite({0: layout}, {0: layout})
    return request.rewrite({0: layout}, {0: layout}, attrs=_axis_attribute(op, layout, 1))


def gather_elements(request: LayoutRequest) -> LayoutRewrite:
    """GatherElements: data, indices and result in one layout."""
    layout = request.layout_at((0, 1))
    return request.rewrite({0: layout, 1: layout}, {0: layout}, attrs=_axis_attribute(request.op, layout, 0))


def cum_sum(request: LayoutRequest) -> LayoutRewrite:
    """CumSum along a constant axis."""
    layout = request.layout_at()
    (axis,) = axes_in_layout(constant_input(request.op, 1), layout)
    kind = operand(request.op, 1).const
    return request.rewrite({0: layout}, {0: layout}, constants={1: np.full(kind.shape, axis, kind.dtype)}, exact=False)


def top_k(request: LayoutRequest) -> LayoutRewrite:
    """TopK: values and indices in one layout."""
    layout = request.layout_at((0,), (0, 1))
    return request.rewrite({0: layout}, {0: layout, 1: layout}, attrs=_axis_attribute(request.op, layout, -1))


def layer_norm(request: LayoutRequest) -> LayoutRewrite:
    """LayerNormalization and RMSNormalization, over last axes that stay where they are."""
    op, layout = request.op, request.layout_at((0,), (0, 1, 2))
    start = normalized_axis(op, len(layout), -1)
    require(layout[start:] == tuple(range(start, len(layout))), "it normalizes the last axes")
    return request.rewrite({0: layout}, dict.fromkeys(range(len(op.outputs)), layout), exact=False)


def lp_norm(request: LayoutRequest) -> LayoutRewrite:
    """LpNormalization along an axis."""
    layout = request.layout_at()
    return request.rewrite({0: layout}, {0: layout}, attrs=_axis_attribute(request.op, layout, -1), exact=False)


def batch_norm(request: LayoutRequest) -> LayoutRewrite:
    """BatchNormalization outside training, and InstanceNormalization, where the first two axes stay."""
    op, layout = request.op, request.layout_at()
    require(not writes_inputs(op) and not op.attr("training_mode"), "it is in training mode")
    require(op.version >= 9 or op.type != "BatchNormalization", "the normalized axes are unknown")
    require(layout[1] == 1 and layout[0] == 0, "the channel axis is fixed")
    return request.rewrite({0: layout}, {0: layout}, exact=False)


def matmul(request: LayoutRequest) -> LayoutRewrite:
    """MatMul: other batch axes, both factors transposed and exchanged, or other rows of one factor."""
    op = request.op
    a, b = operand(op, 0).rank, operand(op, 1).rank
    layout = request.layout_at((0, 1) if a == b else (0,))
    last = tuple(range(len(layout)))[-2:]
    if a == b >= 2:
        require(layout[-2:] in {last, last[::-1]}, "the matrices are the last two axes")
        return request.rewrite({0: layout, 1: layout}, {0: layout}, swap_inputs=layout[-2:] != last, exact=False)
    require(a > b == 2 and layout[-1] == last[-1], "it is a product with a vector")
    return request.rewrite({0: layout}, {0: layout}, exact=False)
