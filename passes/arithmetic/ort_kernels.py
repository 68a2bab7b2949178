"""Element types for which onnxruntime has kernels."""

from __future__ import annotations

from onnx import TensorProto

from ...core import Build, Value, require
from ...core.ir.dtypes import CPU_FLOATS, HALF_OR_SINGLE, INTEGERS

MAX_FOLDED_ELEMENTS = 1024  # elements of a result that is written down as a constant

_CLAMP_TYPES = CPU_FLOATS | (INTEGERS - {TensorProto.INT16, TensorProto.UINT16})
# What onnxruntime's CPU provider has kernels for, from which opset on, the newest first.
KERNEL_TYPES: dict[str, tuple[tuple[int, frozenset[int]], ...]] = {
    "Clip": ((12, _CLAMP_TYPES), (7, HALF_OR_SINGLE)),
    "Max": ((12, _CLAMP_TYPES), (8, CPU_FLOATS), (7, HALF_OR_SINGLE)),
    "Min": ((12, _CLAMP_TYPES), (8, CPU_FLOATS), (7, HALF_OR_SINGLE)),
    "Neg": ((7, CPU_FLOATS | {TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64}),),
    "Relu": ((14, CPU_FLOATS | {TensorProto.INT8, TensorProto.INT32}), (7, CPU_FLOATS)),
}


def require_ort_kernel(g: Build, op_type: str, x: Value) -> None:
    """Decline where onnxruntime has no kernel for the replacement."""
    kinds = next((kinds for since, kinds in KERNEL_TYPES[op_type] if g.opset >= since), frozenset[int]())
    require(x.dtype in kinds, f"onnxruntime has no {op_type} of this type at opset {g.opset}")
