"""Float64 kernels of quantization, and of products of quantized tensors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from .kernel_call import Array, Kernel, KernelCall
from .reference_kernels import cast, dtype_of, integer_range
from .window_kernels import convolve


def _spread(v: Array, x: Array, axis: int, block: int) -> Array:
    """Scales or zero points of a tensor, an axis or blocks along an axis, shaped to broadcast to `x`."""
    if v.size == 1 and v.ndim <= 1:
        return v.reshape(())
    axis %= max(x.ndim, 1)
    if v.ndim == 1 and not block:
        return v.reshape(-1, *(1,) * (x.ndim - axis - 1))
    return np.take(np.repeat(v, block, axis), range(x.shape[axis]), axis)


def saturated(numbers: Array, element_type: int, call: KernelCall | None = None) -> Array:
    """Whole numbers, or any numbers for 8-bit floats, as codes of a type, saturated to its range."""
    limits = integer_range(element_type)
    if limits is None:
        return cast(numbers, element_type, saturate=call is None or bool(call.get("saturate", 1)))
    return np.clip(numbers, *limits).astype(dtype_of(element_type))


def _quantize(call: KernelCall, x: Array, scale: Array, zero: Array | None = None) -> Array:
    kind = (0 if zero is None else call.input_type(2)) or call.get("output_dtype") or TensorProto.UINT8
    axis, block = call.get("axis", 1), call.get("block_size", 0)
    codes = x.astype(np.float64) / _spread(scale, x, axis, block)
    if integer_range(kind) is not None:
        codes = np.rint(codes)
    if zero is not None:
        codes = codes + _spread(zero.astype(np.float64), x, axis, block)
    return saturated(codes, kind, call)


def _dequantize(call: KernelCall, x: Array, scale: Array, zero: Array | None = None) -> Array:
    axis, block = call.get("axis", 1), call.get("block_size", 0)
    codes = x.astype(np.float64)
    if zero is not None:
        codes = codes - _spread(zero.astype(np.float64), x, axis, block)
    return codes * _spread(scale, x, axis, block)


def quantize_dynamically(x: Array) -> tuple[Array, Array, Array]:
    """Codes of 8 bits, their scale and zero point (operator DynamicQuantizeLinear)."""
    low, high = min(float(x.min(initial=0)), 0.0), max(float(x.max(initial=0)), 0.0)
    scale = (high - low) / 255 or 1.0
    zero = np.clip(np.rint(-low / scale), 0, 255)
    codes = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    return codes, np.asarray(scale), np.asarray(zero, np.uint8)


def _shifted(x: Array, zero: Array | None, *, by_row: bool = False) -> Array:
    """Codes less their zero point, exact in float64; a vector of them is by row, or by column."""
    if zero is None:
        return x.astype(np.float64)
    z = zero.astype(np.float64)
    if z.ndim == 1 and z.size > 1 and by_row:
        z = z.reshape(-1, 1)
    return x.astype(np.float64) - (z.reshape(()) if z.size == 1 else z)


def _matmul_integer(_: KernelCall, a: Array, b: Array, za: Array | None = None, zb: Array | None = None) -> Array:
    return (_shifted(a, za, by_row=True) @ _shifted(b, zb)).astype(np.int32)


def _qlinear_matmul(
    call: KernelCall, a: Array, sa: Array, za: Array, b: Array, sb: Array, zb: Array, sy: Array, zy: Array
) -> Array:
    rows = sa.reshape(-1, 1) if sa.ndim == 1 and sa.size > 1 else sa
    real = (_shifted(a, za, by_row=True) * rows) @ (_shifted(b, zb) * sb)
    return saturated(np.rint(real / sy) + zy.astype(np.float64), call.input_type(7))


def _channels(v: Array, rank: int) -> Array:
    return v.astype(np.float64).reshape(-1, *(1,) * (rank - 1))


def _conv_integer(call: KernelCall, x: Array, w: Array, zx: Array | None = None, zw: Array | None = None) -> Array:
    weights = w.astype(np.float64) if zw is None else w.astype(np.float64) - _channels(zw, w.ndim)
    return convolve(call, _shifted(x, zx), weights).astype(np.int32)


def _qlinear_conv(
    call: KernelCall,
    x: Array,
    sx: Array,
    zx: Array,
    w: Array,
    sw: Array,
    zw: Array,
    sy: Array,
    zy: Array,
    *bias: Array | None,
) -> Array:
    weights = w.astype(np.float64) - _channels(zw, w.ndim)
    total = convolve(call, _shifted(x, zx), weights)
    if bias and bias[0] is not None:
        total = total + _channels(bias[0], x.ndim - 1)
    real = total * sx.reshape(()) * _channels(sw, x.ndim - 1)
    return saturated(np.rint(real / sy.reshape(())) + zy.astype(np.float64).reshape(()), call.input_type(7))


KERNELS: Mapping[str, Kernel] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": lambda _, x: quantize_dynamically(x),
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
}
