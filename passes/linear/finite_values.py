"""Values that are never infinite, whatever the model is fed: NaN or finite numbers of moderate size."""

from __future__ import annotations

from math import prod

import numpy as np

from ...core import Op, Value
from ..support.dtypes import FLOATS

# Of anything at all they give moderate numbers, or NaN.
BOUNDED_OPS = frozenset({"Cos", "Erf", "HardSigmoid", "Sigmoid", "Sin", "Softmax", "Softsign", "Tanh"})
# Of anything at all they give moderate numbers times a scale plus a shift.
NORMALIZATION_OPS = frozenset({"GroupNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization"})
# Of moderate numbers they give moderate numbers.
FINITENESS_PRESERVING_OPS = frozenset({
    "Abs", "Add", "Concat", "DepthToSpace", "Dropout", "Elu", "Expand", "Flatten", "Gather", "Gelu", "HardSwish",
    "Identity", "LeakyRelu", "Max", "Mean", "Min", "Mish", "Mul", "Neg", "ReduceMean", "Relu", "Reshape", "Selu",
    "Slice", "Softplus", "SpaceToDepth", "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip
MAX_OPS = 32  # ops looked at
MAX_CONSTANT_ELEMENTS = 1 << 16  # elements of a constant that is read for this


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
            if prod(v.static_shape) > MAX_CONSTANT_ELEMENTS or not np.isfinite(v.const).all():
                return False
            continue
        op = v.producer
        if op is None or op.domain or len(seen) > MAX_OPS:
            return False
        if op.type not in BOUNDED_OPS:
            if op.type not in FINITENESS_PRESERVING_OPS | NORMALIZATION_OPS:
                return False
            stack += _relevant_inputs(op)
    return True


def _relevant_inputs(op: Op) -> list[Value]:
    """The inputs that have to be finite for the outputs to be."""
    return [v for v in op.inputs[op.type in NORMALIZATION_OPS :] if v is not None]
