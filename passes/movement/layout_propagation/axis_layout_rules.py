"""Ops along one axis, or along all that follow it, whose result has the rank of their data."""

from __future__ import annotations

import numpy as np

from ....core import Op, require
from ....core.inference.input_queries import axis_of
from ....core.ir.effects import writes_inputs
from ...support.operand_queries import operand
from .layout import Layout
from .layout_rewrite import Asked, Move, integers, relocated


def _placed(op: Op, layout: Layout, default: int) -> dict[str, int]:
    """The attribute `axis`, for what is held in `layout`."""
    return {"axis": relocated([op.attr("axis", default)], layout)[0]}


def softmax(asked: Asked) -> Move:
    """Softmax and LogSoftmax: along one axis, before opset 13 along all from there on."""
    op, layout = asked.op, asked.same_rank()
    if op.version >= 13:
        return asked.moved({0: layout}, {0: layout}, attrs=_placed(op, layout, -1), exact=False)
    start = axis_of(op, len(layout), 1)
    tail = range(start, len(layout))
    require(sorted(layout[start:]) == list(tail), "it takes all axes from one on together")
    return asked.moved({0: layout}, {0: layout}, exact=False)


def concat(asked: Asked) -> Move:
    """Concat: all operands in one layout."""
    op, count = asked.op, len(asked.op.inputs)
    require("axis" in op.attrs, "it has no axis")
    layout = asked.same_rank(range(count))
    return asked.moved(dict.fromkeys(range(count), layout), {0: layout}, attrs=_placed(op, layout, 0))


def split(asked: Asked) -> Move:
    """Split: all pieces in one layout; how long they are stays."""
    count = len(asked.op.outputs)
    layout = asked.same_rank((0,), range(count))
    return asked.moved({0: layout}, dict.fromkeys(range(count), layout), attrs=_placed(asked.op, layout, 0))


def quantize(asked: Asked) -> Move:
    """QuantizeLinear and DequantizeLinear, of a whole tensor or along an axis, not in blocks."""
    op, layout = asked.op, asked.same_rank()
    scale = operand(op, 1)
    require(not op.attr("block_size"), "it has a scale for each block")
    if scale.rank == 0 or op.version < 13:
        require(all(d == 1 for d in scale.shape), "it has several scales")
        return asked.moved({0: layout}, {0: layout})
    require(scale.rank == 1, "it has a scale for each block")
    if scale.shape == (1,) and not -len(layout) <= op.attr("axis", 1) < len(layout):
        return asked.moved({0: layout}, {0: layout})
    return asked.moved({0: layout}, {0: layout}, attrs=_placed(op, layout, 1))


def gather_elements(asked: Asked) -> Move:
    """GatherElements: data, indices and result in one layout."""
    layout = asked.same_rank((0, 1))
    return asked.moved({0: layout, 1: layout}, {0: layout}, attrs=_placed(asked.op, layout, 0))


def cumulative(asked: Asked) -> Move:
    """CumSum along a constant axis."""
    layout = asked.same_rank()
    (axis,) = relocated(integers(asked.op, 1), layout)
    kind = operand(asked.op, 1).const
    return asked.moved({0: layout}, {0: layout}, constants={1: np.full(kind.shape, axis, kind.dtype)}, exact=False)


def top_k(asked: Asked) -> Move:
    """TopK: values and indices in one layout."""
    layout = asked.same_rank((0,), (0, 1))
    return asked.moved({0: layout}, {0: layout, 1: layout}, attrs=_placed(asked.op, layout, -1))


def layer_norm(asked: Asked) -> Move:
    """LayerNormalization and RMSNormalization, over last axes that stay where they are."""
    op, layout = asked.op, asked.same_rank((0,), (0, 1, 2))
    start = axis_of(op, len(layout), -1)
    require(layout[start:] == tuple(range(start, len(layout))), "it normalizes last axes")
    return asked.moved({0: layout}, dict.fromkeys(range(len(op.outputs)), layout), exact=False)


def lp_norm(asked: Asked) -> Move:
    """LpNormalization along an axis."""
    layout = asked.same_rank()
    return asked.moved({0: layout}, {0: layout}, attrs=_placed(asked.op, layout, -1), exact=False)


def batch_norm(asked: Asked) -> Move:
    """BatchNormalization outside training, and InstanceNormalization, where the first two axes stay."""
    op, layout = asked.op, asked.same_rank()
    require(not writes_inputs(op) and not op.attr("training_mode"), "it is in training form")
    require(op.version >= 9 or op.type != "BatchNormalization", "it may take each element for itself")
    require(layout[1] == 1 and layout[0] == 0, "its channels are on axis 1")
    return asked.moved({0: layout}, {0: layout}, exact=False)


def product(asked: Asked) -> Move:
    """MatMul: other batch axes, both factors transposed and exchanged, or other rows of one factor."""
    op = asked.op
    a, b = operand(op, 0).rank, operand(op, 1).rank
    layout = asked.same_rank((0, 1) if a == b else (0,))
    last = tuple(range(len(layout)))[-2:]
    if a == b >= 2:
        require(layout[-2:] in {last, last[::-1]}, "it multiplies along the last two axes")
        return asked.moved({0: layout, 1: layout}, {0: layout}, swaps=layout[-2:] != last, exact=False)
    require(a > b == 2 and layout[-1] == last[-1], "it multiplies along the last axis")
    return asked.moved({0: layout}, {0: layout}, exact=False)
