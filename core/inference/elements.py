"""The elements of small integer and boolean tensors, as expressions of the model's symbols.

Integers are taken as unbounded; what leaves the range of its type is not followed. Booleans are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from ..errors import Declined
from ..ir.op import Op
from ..ir.tensor import COUNTING, MOST_ELEMENTS
from ..ir.terms import Known, size_of
from ..ir.values import Value
from .element_arithmetic import ARITHMETIC
from .element_moves import MOVES
from .operands import Found

LIMITS: dict[int, int] = {onnx.TensorProto.INT64: 1 << 63, onnx.TensorProto.INT32: 1 << 31, onnx.TensorProto.BOOL: 2}
UNWIELDY = 200
"""Atoms and factors of an expression that is not worth its cost any more."""
RULES: dict[str, Callable[[Op], list[Found]]] = {**MOVES, **ARITHMETIC}


def elements_of(op: Op) -> list[Found]:
    """What can be said of the elements of each output of `op`, whose shapes are known already; [] of nothing."""
    rule = RULES.get(op.type) if not op.domain else None
    if rule is None:
        return []
    try:
        found = rule(op)
    except Declined:
        return []
    return [[_handy(x, v) for x in f] for f, v in zip(found, op.outputs, strict=False)]


def is_followed(value: Value) -> bool:
    """Whether the elements of a value are followed: few integers or booleans in rank 0 or 1."""
    dtype, shape = value.stated
    if dtype not in COUNTING or shape is None or len(shape) > 1:
        return False
    return not shape or (isinstance(shape[0], int) and shape[0] <= MOST_ELEMENTS)


def _handy(x: Known | None, of: Value) -> Known | None:
    if isinstance(x, int):
        limit = LIMITS[of.stated[0]]
        return x if -limit <= x < limit else None
    return x if x is None or size_of(x) <= UNWIELDY else None
