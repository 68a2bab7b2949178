"""Quantization, and products of quantized tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from ..ir.expressions import Shape
from ..ir.op import Op
from .declaration import Family, T
from .element_types import Array, dtype_of, integer_range, type_at
from .linear import product_shape
from .operands import input_shape
from .reference import cast
from .window import convolution_shape, convolve

QUANTIZATION = Family()


def _spread(v: Array, x: Array, axis: int, block: int) -> Array:
    """Reshape scales or zero points of a tensor, an axis, or blocks along an axis to broadcast to `x`."""
    if v.size == 1 and v.ndim <= 1:
        return v.reshape(())
    axis %= max(x.ndim, 1)
    if v.ndim == 1 and not block:
        return v.reshape(-1, *(1,) * (x.ndim - axis - 1))
    return np.take(np.repeat(v, block, axis), range(x.shape[axis]), axis)


def saturated(numbers: Array, element_type: int, *, saturate: bool = True) -> Array:
    """Convert integers, or any numbers for 8-bit floats, to codes of a type, saturated to its range."""
    limits = integer_range(element_type)
    if limits is None:
        return cast(numbers, element_type, saturate=saturate)
    return np.clip(numbers, *limits).astype(dtype_of(element_type))


@QUANTIZATION.operator(
    "QuantizeLinear", T.SAME_SHAPE | T.EMPTY_SAFE | T.HAS_AXIS | T.JUMPS | T.LINEAR_TIME | T.ROUNDS_ONCE
)
def quantize(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    saturate: int = 1, input_types: Sequence[int],
) -> Array:  # fmt: skip
    """Convert numbers to codes (operator QuantizeLinear)."""
    kind = (0 if zero is None else type_at(input_types, 2)) or output_dtype or TensorProto.UINT8
    codes = x.astype(np.float64) / _spread(scale, x, axis, block_size)
    if integer_range(kind) is not None:
        codes = np.rint(codes)
    if zero is not None:
        codes = codes + _spread(zero.astype(np.float64), x, axis, block_size)
    return saturated(codes, kind, saturate=bool(saturate))


@QUANTIZATION.operator("DequantizeLinear", T.SAME_SHAPE | T.EMPTY_SAFE | T.HAS_AXIS | T.LINEAR_TIME | T.ROUNDS_ONCE)
def dequantize(x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0) -> Array:
    """Convert codes to numbers (operator DequantizeLinear)."""
    codes = x.astype(np.float64)
    if zero is not None:
        codes = codes - _spread(zero.astype(np.float64), x, axis, block_size)
    return codes * _spread(scale, x, axis, block_size)


@QUANTIZATION.operator("DynamicQuantizeLinear", T.SAME_SHAPE | T.EMPTY_SAFE | T.JUMPS | T.LINEAR_TIME)
def quantize_dynamically(x: Array) -> tuple[Array, Array, Array]:
    """Convert numbers to 8-bit codes, with their scale and zero point (operator DynamicQuantizeLinear)."""
    low, high = min(float(x.min(initial=0)), 0.0), max(float(x.max(initial=0)), 0.0)
    scale = (high - low) / 255 or 1.0
    zero = np.clip(np.rint(-low / scale), 0, 255)
    codes = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    return codes, np.asarray(scale), np.asarray(zero, np.uint8)


@QUANTIZATION.shapes("DynamicQuantizeLinear")
def _shapes_of_dynamic_codes(op: Op) -> list[Shape]:
    return [input_shape(op), (), ()]


def _shifted(x: Array, zero: Array | None, *, by_row: bool = False) -> Array:
    """Subtract the zero point from codes, exactly in float64; a vector applies by row or by column."""
    if zero is None:
        return x.astype(np.float64)
    z = zero.astype(np.float64)
    if z.ndim == 1 and z.size > 1 and by_row:
        z = z.reshape(-1, 1)
    return x.astype(np.float64) - (z.reshape(()) if z.size == 1 else z)


@QUANTIZATION.operator("MatMulInteger", T.EMPTY_SAFE)
def _matmul_integer(a: Array, b: Array, za: Array | None = None, zb: Array | None = None) -> Array:
    return (_shifted(a, za, by_row=True) @ _shifted(b, zb)).astype(np.int32)


@QUANTIZATION.operator("QLinearMatMul", T.EMPTY_SAFE | T.JUMPS)
def _qlinear_matmul(
    a: Array, sa: Array, za: Array, b: Array, sb: Array, zb: Array, sy: Array, zy: Array, *, input_types: Sequence[int]
) -> Array:
    rows = sa.reshape(-1, 1) if sa.ndim == 1 and sa.size > 1 else sa
    real = (_shifted(a, za, by_row=True) * rows) @ (_shifted(b, zb) * sb)
    return saturated(np.rint(real / sy) + zy.astype(np.float64), type_at(input_types, 7))


@QUANTIZATION.shapes("MatMulInteger QLinearMatMul")
def _shape_of_product(op: Op) -> list[Shape]:
    return [product_shape(input_shape(op), input_shape(op, 1 if op.type == "MatMulInteger" else 3))]


def _channels(v: Array, rank: int) -> Array:
    return v.astype(np.float64).reshape(-1, *(1,) * (rank - 1))


@QUANTIZATION.operator("ConvInteger", T.EMPTY_SAFE | T.CONVOLUTION)
def _conv_integer(x: Array, w: Array, zx: Array | None = None, zw: Array | None = None, **settings: Any) -> Array:
    weights = w.astype(np.float64) if zw is None else w.astype(np.float64) - _channels(zw, w.ndim)
    return convolve(_shifted(x, zx), weights, **settings).astype(np.int32)


@QUANTIZATION.operator("QLinearConv", T.EMPTY_SAFE | T.CONVOLUTION | T.JUMPS)
def _qlinear_conv(
    x: Array, sx: Array, zx: Array, w: Array, sw: Array, zw: Array, sy: Array, zy: Array, bias: Array | None = None, *,
    input_types: Sequence[int], **settings: Any,
) -> Array:  # fmt: skip
    weights = w.astype(np.float64) - _channels(zw, w.ndim)
    total = convolve(_shifted(x, zx), weights, **settings)
    if bias is not None:
        total = total + _channels(bias, x.ndim - 1)
    real = total * sx.reshape(()) * _channels(sw, x.ndim - 1)
    return saturated(np.rint(real / sy.reshape(())) + zy.astype(np.float64).reshape(()), type_at(input_types, 7))


@QUANTIZATION.shapes("ConvInteger QLinearConv")
def _shape_of_convolution(op: Op) -> list[Shape]:
    return [convolution_shape(op, 1 if op.type == "ConvInteger" else 3)]
