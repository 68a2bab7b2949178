"""Sets of element types (`onnx.TensorProto.DataType`)."""

from __future__ import annotations

import re

from onnx import TensorProto

HALF_OR_SINGLE = frozenset({TensorProto.FLOAT16, TensorProto.FLOAT})
CPU_FLOATS = HALF_OR_SINGLE | {TensorProto.DOUBLE}
"""The floats that onnxruntime's CPU provider computes in."""
FLOATS = CPU_FLOATS | {TensorProto.BFLOAT16}
FLOAT16_DTYPES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
INTEGERS = frozenset({
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
})  # fmt: skip
"""The integers that arithmetic is defined for."""
INTEGER_DTYPES = frozenset(t for name, t in TensorProto.DataType.items() if re.fullmatch(r"U?INT\d+", name))
"""All integers, with types of less than 8 bits."""
DISCRETE_TYPES = INTEGERS | {TensorProto.BOOL, TensorProto.STRING}
"""Types of which every element has one form: no zero is negative, nothing is rounded."""
