"""Element types: which ops onnxruntime computes in which; and what the rules here share."""

from __future__ import annotations

from onnx import TensorProto

from ...core import Build, Value, conditional, require

Operands = tuple[Value | None, ...]

MOST_FILLED = 1024  # elements of a result that is written down as a constant

ZEROS = conditional("no zero is negative")

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16})
INTEGERS = frozenset({
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
})  # fmt: skip

_SINGLE = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16})
_REAL = _SINGLE | {TensorProto.DOUBLE}
_CLAMPED = _REAL | (INTEGERS - {TensorProto.INT16, TensorProto.UINT16})
# What onnxruntime's CPU provider has kernels for, from which opset on, the newest first.
KERNELS: dict[str, tuple[tuple[int, frozenset[int]], ...]] = {
    "Clip": ((12, _CLAMPED), (7, _SINGLE)),
    "Max": ((12, _CLAMPED), (8, _REAL), (7, _SINGLE)),
    "Min": ((12, _CLAMPED), (8, _REAL), (7, _SINGLE)),
    "Neg": ((7, _REAL | {TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64}),),
    "Relu": ((14, _REAL | {TensorProto.INT8, TensorProto.INT32}), (7, _REAL)),
}


def require_kernel(g: Build, op_type: str, x: Value) -> None:
    """Decline where onnxruntime could not run the op to be made, though it runs what stands there."""
    kinds = next((kinds for since, kinds in KERNELS[op_type] if g.opset >= since), frozenset[int]())
    require(x.dtype in kinds, f"onnxruntime has no {op_type} of this type at opset {g.opset}")


def is_integer(dtype: int) -> bool:
    """Whether a type is one of the integers that arithmetic is done in."""
    return dtype in INTEGERS
