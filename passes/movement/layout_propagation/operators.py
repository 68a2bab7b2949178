"""Which ops can be computed in another layout, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from onnx import TensorProto

from ....core import Declined, Op
from ....core.ir.effects import HALF
from . import axes, elementwise, extents, ranks
from .layout import Layout
from .transfer import Asked, Move

# What onnxruntime can transpose.
MOVABLE = HALF | {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.STRING,
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip

# Not here for what onnxruntime makes of a NaN, which depends on where in memory it lies: Hardmax and
# DynamicQuantizeLinear.
MOVES: Mapping[str, Callable[[Asked], Move]] = MappingProxyType(
    {
        **dict.fromkeys((*elementwise.EXACT_UNARY, *elementwise.UNARY), elementwise.unary),
        **dict.fromkeys((*elementwise.EXACT_BROADCAST, *elementwise.BROADCAST), elementwise.broadcasting),
        **dict.fromkeys(ranks.REDUCTIONS, ranks.reduction),
        **dict.fromkeys(("ArgMax", "ArgMin"), ranks.arg_reduction),
        **dict.fromkeys(("Softmax", "LogSoftmax"), axes.softmax),
        **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), axes.quantize),
        **dict.fromkeys(("LayerNormalization", "RMSNormalization"), axes.layer_norm),
        **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), axes.batch_norm),
        "Concat": axes.concat,
        "CumSum": axes.cumulative,
        "Dropout": elementwise.dropout,
        "Expand": extents.expand,
        "Flatten": ranks.flatten,
        "Gather": ranks.gather,
        "GatherElements": axes.gather_elements,
        "LpNormalization": axes.lp_norm,
        "MatMul": axes.product,
        "Pad": extents.pad,
        "Reshape": ranks.reshape,
        "Resize": extents.resize,
        "Shape": extents.shape,
        "Size": extents.size,
        "Slice": extents.slice_,
        "Split": axes.split,
        "Squeeze": ranks.squeeze,
        "Tile": extents.tile,
        "TopK": axes.top_k,
        "Unsqueeze": ranks.unsqueeze,
    }
)


def move(op: Op, at: int, layout: Layout, *, exact_only: bool) -> Move | None:
    """How `op` does its work if the value at `at` (an input; ~0, ~1 ... for outputs) comes in `layout`, or None."""
    ask = None if op.domain else MOVES.get(op.type)
    if ask is None:
        return None
    try:
        found = ask(Asked(op, at, layout))
        if exact_only and not found.exact:
            return None
        for v, own in zip((*op.inputs, *op.outputs), (*found.inputs, *found.outputs), strict=True):
            if v is not None and own is not None and v.dtype not in MOVABLE:
                return None
    except Declined:
        return None
    return found
