"""Values that are never infinite, whatever the model is fed: NaN or finite numbers of moderate size."""

from __future__ import annotations

from math import prod

import numpy as np

from ...core import Op, Value
from ...core.ir.dtypes import FLOATS
from ...core.ir.traits import Trait, ops_with

BOUNDED_OPS = ops_with(Trait.BOUNDED)
NORMALIZATION_OPS = ops_with(Trait.NORMALIZATION)
FINITENESS_PRESERVING_OPS = ops_with(Trait.KEEPS_FINITE)
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
