"""Ops that treat each element for itself, and their broadcasting operands."""

from __future__ import annotations

from onnx import TensorProto

from ....core import Value, require
from ... import elementwise
from .layout import Layout, inverse
from .layout_rewrite import Asked, Move

# Each element is computed alike wherever it lies. What onnxruntime computes by vector instructions with another
# formula for the last few elements (Exp, Sin, Tanh and their kin) differs in the last bit when elements change places.
EXACT_UNARY = frozenset({
    "Abs", "BitwiseNot", "Cast", "CastLike", "Ceil", "Clip", "Floor", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Neg",
    "Not", "Relu", "Round", "Sign", "Sqrt", "ThresholdedRelu",
})  # fmt: skip
UNARY = (elementwise.UNARY | {"Shrink", "Swish"}) - EXACT_UNARY
EXACT_BROADCAST = frozenset({
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu", "Sub", "Sum", "Where", "Xor",
})  # fmt: skip
BROADCAST = frozenset({"Pow"})
# Casts to these give other numbers beyond the range where onnxruntime has fewer elements left than it takes at once.
WRAPPING = frozenset({TensorProto.UINT32, TensorProto.UINT64})


def unary(asked: Asked) -> Move:
    """Op(x) in the layout of x. What else it reads are numbers."""
    op, layout = asked.op, asked.same_rank()
    casts = op.type in {"Cast", "CastLike"}
    require(
        not casts or op.outputs[0].dtype not in WRAPPING,
        "what is out of range is cast in another way by vector instructions",
    )
    return asked.moved({0: layout}, {0: layout}, exact=op.type in EXACT_UNARY)


def dropout(asked: Asked) -> Move:
    """Dropout outside training, its mask included."""
    require(asked.op.version >= 7, "it may drop elements")
    mode = asked.op.input(2)
    require(mode is None or (mode.is_const and not mode.const.any()), "it may drop elements")
    layout = asked.same_rank(outputs=(0, 1))
    return asked.moved({0: layout}, {0: layout, 1: layout})


def broadcasting(asked: Asked) -> Move:
    """Op(a, b, ...) in the layout of the result; operands of lower rank are moved and unsqueezed into theirs."""
    op = asked.op
    require(op.version >= 7, "it broadcasts in another way")
    values = [(i, v) for i, v in enumerate(op.inputs) if v is not None]
    rank = max(v.rank for _, v in values)
    lead = rank - len(asked.layout)
    layout = (*range(lead), *(lead + axis for axis in asked.layout))
    wanted: dict[int, Layout] = {}
    spread: dict[int, tuple[int, ...]] = {}
    for i, v in values:
        wanted[i], holes = aligned(v, layout)
        if holes:
            spread[i] = holes
    extra = sum(not v.is_const for i, v in values if i in spread)
    return asked.moved(wanted, {0: layout}, spread=spread, extra=extra, exact=op.type in EXACT_BROADCAST)


def aligned(value: Value, layout: Layout) -> tuple[Layout, tuple[int, ...]]:
    """The layout of an operand that is broadcast to what is held in `layout`, and the axes to unsqueeze then."""
    rank = value.rank
    plain = tuple(range(rank))
    if all(d == 1 for d in value.shape) and (value.producer is None or rank < len(layout)):
        return plain, ()
    places = inverse(layout)[len(layout) - rank :]
    order = sorted(plain, key=places.__getitem__)
    first = min(places)
    holes = tuple(i - first for i in range(first, len(layout)) if i not in places)
    return tuple(order), holes
