"""Layout rules by operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ....core import Declined, Op
from ....core.ir.dtypes import DISCRETE_TYPES, FLOATS
from ....core.ir.traits import Trait, ops_with
from . import axis_layout_rules, elementwise_layout_rules, extent_layout_rules, rank_layout_rules
from .layout import Layout
from .layout_rewrite import LayoutRequest, LayoutRewrite

# What onnxruntime can transpose.
TRANSPOSABLE_TYPES = FLOATS | DISCRETE_TYPES

# Not here for what onnxruntime makes of a NaN, which depends on where in memory it lies: Hardmax and
# DynamicQuantizeLinear.
LAYOUT_RULES: Mapping[str, Callable[[LayoutRequest], LayoutRewrite]] = MappingProxyType(
    {
        **dict.fromkeys(elementwise_layout_rules.ELEMENTWISE_OPS, elementwise_layout_rules.unary),
        **dict.fromkeys(elementwise_layout_rules.BROADCASTING_OPS, elementwise_layout_rules.broadcasting),
        **dict.fromkeys(ops_with(Trait.REDUCTION), rank_layout_rules.reduction),
        **dict.fromkeys(("ArgMax", "ArgMin"), rank_layout_rules.arg_reduction),
        **dict.fromkeys(("Softmax", "LogSoftmax"), axis_layout_rules.softmax),
        **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), axis_layout_rules.quantize),
        **dict.fromkeys(("LayerNormalization", "RMSNormalization"), axis_layout_rules.layer_norm),
        **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), axis_layout_rules.batch_norm),
        "Concat": axis_layout_rules.concat,
        "CumSum": axis_layout_rules.cum_sum,
        "Dropout": elementwise_layout_rules.dropout,
        "Expand": extent_layout_rules.expand,
        "Flatten": rank_layout_rules.flatten,
        "Gather": rank_layout_rules.gather,
        "GatherElements": axis_layout_rules.gather_elements,
        "LpNormalization": axis_layout_rules.lp_norm,
        "MatMul": axis_layout_rules.matmul,
        "Pad": extent_layout_rules.pad,
        "Reshape": rank_layout_rules.reshape,
        "Resize": extent_layout_rules.resize,
        "Shape": extent_layout_rules.shape,
        "Size": extent_layout_rules.size,
        "Slice": extent_layout_rules.slice_,
        "Split": axis_layout_rules.split,
        "Squeeze": rank_layout_rules.squeeze,
        "Tile": extent_layout_rules.tile,
        "TopK": axis_layout_rules.top_k,
        "Unsqueeze": rank_layout_rules.unsqueeze,
    }
)


def apply_layout_rule(op: Op, index: int, layout: Layout, *, exact_only: bool) -> LayoutRewrite | None:
    """The rewrite of `op` if the value at `index` (an input; ~0, ~1 ... for outputs) has `layout`, or None."""
    ask = None if op.domain else LAYOUT_RULES.get(op.type)
    if ask is None:
        return None
    try:
        found = ask(LayoutRequest(op, index, layout))
        if exact_only and not found.exact:
            return None
        for v, own in zip((*op.inputs, *op.outputs), (*found.input_layouts, *found.output_layouts), strict=True):
            if v is not None and own is not None and v.dtype not in TRANSPOSABLE_TYPES:
                return None
    except Declined:
        return None
    return found
