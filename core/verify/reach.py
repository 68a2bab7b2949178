"""Whether the numbers of an input are computed with, or only moved, compared and chosen among."""

from __future__ import annotations

from ..ir.op import Op
from ..ir.values import Value
from .readers import LOOKS_FAR_ENOUGH, readings

# Operators whose results are numbers that they were given, perhaps with another sign, or tell about them in integers.
CHOOSES = frozenset({
    "Identity", "Cast", "CastLike", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Flatten", "Slice", "Expand",
    "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Concat", "Split", "Tile", "Where", "Pad",
    "Dropout", "DepthToSpace", "SpaceToDepth", "Compress", "Trilu", "ReverseSequence", "Shape", "Size", "NonZero",
    "Abs", "Neg", "Sign", "Relu", "Clip", "Max", "Min", "Ceil", "Floor", "Round", "ReduceMax", "ReduceMin", "MaxPool",
    "GlobalMaxPool", "ArgMax", "ArgMin", "TopK", "IsNaN", "IsInf", "If", "Loop", "Scan", "SequenceConstruct",
    "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal",
})  # fmt: skip
TELLS = frozenset({
    "Shape", "Size", "NonZero", "ArgMax", "ArgMin", "IsNaN", "IsInf", "Sign", "Greater", "GreaterOrEqual", "Less",
    "LessOrEqual", "Equal",
})  # fmt: skip


def is_only_chosen(value: Value) -> bool:
    """Whether nothing is computed from the numbers in `value` that might overflow or round."""
    for count, (reading, _) in enumerate(readings(value, True, _goes_on)):
        if reading.op.domain or reading.op.type not in CHOOSES or count >= LOOKS_FAR_ENOUGH:
            return False
    return True


def _goes_on(op: Op, index: int, state: bool) -> bool | None:
    """What is told of numbers is none of them; into bodies they are followed by `readings` itself."""
    return None if op.type in TELLS or op.subgraphs else state
