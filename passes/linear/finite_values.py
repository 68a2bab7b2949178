"""Values that are never infinite, whatever the model is fed: NaN or finite numbers of moderate size."""

from __future__ import annotations

from math import prod

import numpy as np

from ...core import Op, Value
from ..support.dtypes import FLOATS

# Of anything at all they give moderate numbers, or NaN.
SATURATE = frozenset({"Cos", "Erf", "HardSigmoid", "Sigmoid", "Sin", "Softmax", "Softsign", "Tanh"})
# Of anything at all they give moderate numbers times a scale plus a shift.
NORMALIZE = frozenset({"GroupNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization"})
# Of moderate numbers they give moderate numbers.
KEEP = frozenset({
    "Abs", "Add", "Concat", "DepthToSpace", "Dropout", "Elu", "Expand", "Flatten", "Gather", "Gelu", "HardSwish",
    "Identity", "LeakyRelu", "Max", "Mean", "Min", "Mish", "Mul", "Neg", "ReduceMean", "Relu", "Reshape", "Selu",
    "Slice", "Softplus", "SpaceToDepth", "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip
FARTHEST = 32  # ops looked at
LARGEST = 1 << 16  # elements of a constant that is read for this


def is_finite(value: Value) -> bool:
    """Whether `value` can be seen to hold no infinity, even where an input of the model does. O(1)."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        v = stack.pop()
        if v in seen or (v.known_dtype and v.known_dtype not in FLOATS):
            continue
        seen.add(v)
        if v.is_const:
            if prod(v.static_shape) > LARGEST or not np.isfinite(v.const).all():
                return False
            continue
        op = v.producer
        if op is None or op.domain or len(seen) > FARTHEST:
            return False
        if op.type not in SATURATE:
            if op.type not in KEEP | NORMALIZE:
                return False
            stack += _what_matters(op)
    return True


def _what_matters(op: Op) -> list[Value]:
    """The inputs that have to be finite for the outputs to be."""
    return [v for v in op.inputs[op.type in NORMALIZE :] if v is not None]
