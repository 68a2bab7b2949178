"""Ops that treat each element for itself, and their broadcasting operands."""

from __future__ import annotations

from onnx import TensorProto

from ....core import Value, require
from ....core.ir.traits import Trait, ops_with
from ...support.operand_queries import require_numpy_broadcasting
from .layout import Layout, inverse
from .layout_rewrite import LayoutRequest, LayoutRewrite

ELEMENTWISE_OPS = ops_with(Trait.ELEMENTWISE)
BROADCASTING_OPS = ops_with(Trait.BROADCASTING) | {"PRelu"}
EXACT_OPS = ops_with(Trait.LAYOUT_INVARIANT)  # others differ in the last bit when elements change places
# Casts to these give other numbers beyond the range where onnxruntime has fewer elements left than it takes at once.
WRAPPING_CAST_TYPES = frozenset({TensorProto.UINT32, TensorProto.UINT64})


def unary(request: LayoutRequest) -> LayoutRewrite:
    """Op(x) in the layout of x. What else it reads are numbers."""
    op, layout = request.op, request.layout_at()
    casts = op.type in {"Cast", "CastLike"}
    require(
        not casts or op.outputs[0].dtype not in WRAPPING_CAST_TYPES,
        "onnxruntime casts out-of-range numbers differently in vectorized code",
    )
    return request.rewrite({0: layout}, {0: layout}, exact=op.type in EXACT_OPS)


def dropout(request: LayoutRequest) -> LayoutRewrite:
    """Dropout outside training, its mask included."""
    require(request.op.version >= 7, "it may drop elements")
    mode = request.op.input(2)
    require(mode is None or (mode.is_const and not mode.const.any()), "it may drop elements")
    layout = request.layout_at(outputs=(0, 1))
    return request.rewrite({0: layout}, {0: layout, 1: layout})


def broadcasting(request: LayoutRequest) -> LayoutRewrite:
    """Op(a, b, ...) in the layout of the result; operands of lower rank are moved and unsqueezed into theirs."""
    op = request.op
    require_numpy_broadcasting(op.version)
    values = [(i, v) for i, v in enumerate(op.inputs) if v is not None]
    rank = max(v.rank for _, v in values)
    lead = rank - len(request.layout)
    layout = (*range(lead), *(lead + axis for axis in request.layout))
    wanted: dict[int, Layout] = {}
    spread: dict[int, tuple[int, ...]] = {}
    for i, v in values:
        wanted[i], holes = broadcast_layout(v, layout)
        if holes:
            spread[i] = holes
    extra = sum(not v.is_const for i, v in values if i in spread)
    return request.rewrite(wanted, {0: layout}, unsqueezed_axes=spread, extra_nodes=extra, exact=op.type in EXACT_OPS)


def broadcast_layout(value: Value, layout: Layout) -> tuple[Layout, tuple[int, ...]]:
    """The layout of an operand that is broadcast to a value in `layout`, and the axes to unsqueeze."""
    rank = value.rank
    plain = tuple(range(rank))
    if all(d == 1 for d in value.shape) and (value.producer is None or rank < len(layout)):
        return plain, ()
    places = inverse(layout)[len(layout) - rank :]
    order = sorted(plain, key=places.__getitem__)
    first = min(places)
    holes = tuple(i - first for i in range(first, len(layout)) if i not in places)
    return tuple(order), holes
