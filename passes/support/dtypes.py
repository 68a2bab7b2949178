"""Sets of element types."""

from __future__ import annotations

from onnx import TensorProto

HALF_OR_SINGLE = frozenset({TensorProto.FLOAT16, TensorProto.FLOAT})
CPU_FLOATS = HALF_OR_SINGLE | {TensorProto.DOUBLE}
"""What onnxruntime's CPU provider computes in."""
FLOATS = CPU_FLOATS | {TensorProto.BFLOAT16}
INTEGERS = frozenset({
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
})  # fmt: skip
DISCRETE_TYPES = INTEGERS | {TensorProto.BOOL, TensorProto.STRING}
"""Of these every element has one form: no zero is negative, nothing is rounded."""
