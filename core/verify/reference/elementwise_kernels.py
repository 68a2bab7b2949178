"""Float64 kernels of operators on single elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
from onnx import TensorProto

from . import reference_kernels
from .kernel_call import Array, Kernel, KernelCall
from .rounding import NUMPY_DTYPES

Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
_erf_of_numbers = np.frompyfunc(math.erf, 1, 1)
SELU = (np.float64(np.float32(1.67326319217681884765625)), np.float64(np.float32(1.05070102214813232421875)))


def erf(x: Array) -> Array:
    """The error function to full double precision."""
    return np.asanyarray(_erf_of_numbers(x), np.float64)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return np.logaddexp(x, 0)


def gelu(x: Array, approximate: str = "none") -> Array:
    """Gaussian error linear unit (operator Gelu)."""
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def align_legacy(call: KernelCall, a: Array, b: Array) -> Array:
    """`b` shaped to broadcast to `a`: before opset 7 it starts at the dim `axis` of `a`, the last ones by default."""
    if call.version >= 7 or not call.get("broadcast") or call.get("axis") is None:
        return b
    axis = call.get("axis") % a.ndim
    return b.reshape(b.shape + (1,) * (a.ndim - axis - b.ndim))


def unary(function: Unary) -> Kernel:
    """The kernel of a function of one array."""
    return lambda _, x: function(x)


def binary(function: Binary) -> Kernel:
    """The kernel of a function of two arrays, broadcast as in the call's opset."""
    return lambda call, a, b: function(a, align_legacy(call, a, b))


def variadic(function: Binary) -> Kernel:
    """The kernel of a function of two arrays folded over all inputs."""
    return lambda _, *inputs: reduce(function, inputs)


def divide(a: Array, b: Array) -> Array:
    """A / b; the quotient of integers is truncated towards zero."""
    if a.dtype.kind not in "iu":
        return a / b
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    quotient = a // safe
    inexact = (quotient * safe != a) & ((a < 0) != (safe < 0))
    return (quotient + inexact).astype(a.dtype)


def power(a: Array, b: Array) -> Array:
    """A ** b in the type of `a`."""
    found = np.power(a.astype(np.float64), b.astype(np.float64))
    return found.astype(a.dtype)


def _mod(call: KernelCall, a: Array, b: Array) -> Array:
    return np.fmod(a, b) if call.get("fmod") else np.mod(a, b)


def _clip(call: KernelCall, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    bottom = call.get("min") if low is None else low
    top = call.get("max") if high is None else high
    x = x if bottom is None else np.maximum(x, np.asanyarray(bottom, x.dtype))
    return x if top is None else np.minimum(x, np.asanyarray(top, x.dtype))


def _prelu(call: KernelCall, x: Array, slope: Array) -> Array:
    if call.version < 7 and slope.ndim == 1 and x.ndim > 1 and slope.size > 1:
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    return np.where(x < 0, x * slope, x).astype(x.dtype)


def _hard_swish(_: KernelCall, x: Array) -> Array:
    return x * np.clip(x * np.float64(np.float32(1 / 6)) + 0.5, 0, 1)


def _selu(call: KernelCall, x: Array) -> Array:
    alpha, gamma = call.get("alpha", SELU[0]), call.get("gamma", SELU[1])
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _elu(call: KernelCall, x: Array) -> Array:
    return np.where(x > 0, x, call.get("alpha", 1.0) * np.expm1(np.minimum(x, 0)))


def _celu(call: KernelCall, x: Array) -> Array:
    alpha = call.get("alpha", 1.0)
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


def _shrink(call: KernelCall, x: Array) -> Array:
    limit, bias = call.get("lambd", 0.5), call.get("bias", 0.0)
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0)).astype(x.dtype)


def _is_inf(call: KernelCall, x: Array) -> Array:
    if x.dtype != np.float64:
        return np.isinf(x.astype(np.float64))
    negative, positive = call.get("detect_negative", 1), call.get("detect_positive", 1)
    return np.isinf(x) & (((x > 0) & bool(positive)) | ((x < 0) & bool(negative)))


def _bit_shift(call: KernelCall, a: Array, b: Array) -> Array:
    shift = np.left_shift if call.get("direction") == "LEFT" else np.right_shift
    width = 8 * a.dtype.itemsize
    return np.where(b < width, shift(a, np.minimum(b, width - 1).astype(a.dtype)), 0).astype(a.dtype)


def _bit_cast(call: KernelCall, x: Array) -> Array:
    held = x.astype(NUMPY_DTYPES.get(call.input_type(0), x.dtype))
    return held.view(reference_kernels.dtype_of(call.get("to")))


def _cast(call: KernelCall, x: Array) -> Array:
    to = call.get("to")
    to = TensorProto.DataType.Value(to) if isinstance(to, str) else to
    return cast_to(call, x, to)


def cast_to(call: KernelCall, x: Array, to: int) -> Array:
    """`x` with elements of type `to`; all floats of 16 to 64 bits are the same number."""
    if to in NUMPY_DTYPES and x.dtype.kind in "biuf":
        return x.astype(np.float64)
    if x.dtype == np.float64 and to in reference_kernels.PLAIN_INTEGERS:
        return x.astype(np.int64).astype(reference_kernels.dtype_of(to))
    held = x.astype(NUMPY_DTYPES[call.input_type(0)]) if x.dtype == np.float64 and call.input_type(0) else x
    return reference_kernels.cast(held, to, saturate=bool(call.get("saturate", 1)))


def _mean(_: KernelCall, *inputs: Array) -> Array:
    return reduce(np.add, inputs) / len(inputs)


def _swish(call: KernelCall, x: Array) -> Array:
    return x * sigmoid(call.get("alpha", 1.0) * x)


def _relu(_: KernelCall, x: Array) -> Array:
    return np.maximum(x, np.zeros((), x.dtype))


KERNELS: Mapping[str, Kernel] = {
    "Abs": unary(np.abs),
    "Acos": unary(np.arccos),
    "Acosh": unary(np.arccosh),
    "Add": binary(np.add),
    "And": binary(np.logical_and),
    "Asin": unary(np.arcsin),
    "Asinh": unary(np.arcsinh),
    "Atan": unary(np.arctan),
    "Atanh": unary(np.arctanh),
    "BitCast": _bit_cast,
    "BitShift": _bit_shift,
    "BitwiseAnd": binary(np.bitwise_and),
    "BitwiseNot": unary(np.bitwise_not),
    "BitwiseOr": binary(np.bitwise_or),
    "BitwiseXor": binary(np.bitwise_xor),
    "Cast": _cast,
    "CastLike": lambda call, x, _: cast_to(call, x, call.input_type(1)),
    "Ceil": unary(np.ceil),
    "Celu": _celu,
    "Clip": _clip,
    "Cos": unary(np.cos),
    "Cosh": unary(np.cosh),
    "Div": binary(divide),
    "Elu": _elu,
    "Equal": binary(lambda a, b: np.asarray(a == b)),
    "Erf": unary(erf),
    "Exp": unary(np.exp),
    "Floor": unary(np.floor),
    "Gelu": lambda call, x: gelu(x, call.get("approximate", "none")),
    "Greater": binary(np.greater),
    "GreaterOrEqual": binary(np.greater_equal),
    "HardSigmoid": lambda call, x: np.clip(call.get("alpha", 0.2) * x + call.get("beta", 0.5), 0, 1),
    "HardSwish": _hard_swish,
    "Identity": lambda _, x: x,
    "IsInf": _is_inf,
    "IsNaN": unary(lambda x: np.isnan(x.astype(np.float64))),
    "LeakyRelu": lambda call, x: np.where(x < 0, call.get("alpha", 0.01) * x, x),
    "Less": binary(np.less),
    "LessOrEqual": binary(np.less_equal),
    "Log": unary(np.log),
    "Max": variadic(np.maximum),
    "Mean": _mean,
    "Min": variadic(np.minimum),
    "Mish": unary(lambda x: x * np.tanh(softplus(x))),
    "Mod": _mod,
    "Mul": binary(np.multiply),
    "Neg": unary(np.negative),
    "Not": unary(np.logical_not),
    "Or": binary(np.logical_or),
    "PRelu": _prelu,
    "Pow": binary(power),
    "Reciprocal": unary(lambda x: 1 / x),
    "Relu": _relu,
    "Round": unary(np.rint),
    "Selu": _selu,
    "Shrink": _shrink,
    "Sigmoid": unary(sigmoid),
    "Sign": unary(np.sign),
    "Sin": unary(np.sin),
    "Sinh": unary(np.sinh),
    "Softplus": unary(softplus),
    "Softsign": unary(lambda x: x / (1 + np.abs(x))),
    "Sqrt": unary(np.sqrt),
    "Sub": binary(np.subtract),
    "Sum": variadic(np.add),
    "Swish": _swish,
    "Tan": unary(np.tan),
    "Tanh": unary(np.tanh),
    "ThresholdedRelu": lambda call, x: np.where(x > call.get("alpha", 1.0), x, 0),
    "Where": lambda _, condition, a, b: np.where(condition, a, b),
    "Xor": binary(np.logical_xor),
}
