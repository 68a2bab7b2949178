"""Float64 kernels of onnxruntime's operators in com.microsoft, by their definitions in standard operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import movement_kernels, quantization_kernels
from .attention_kernels import additive_mask, attention_weights, join_heads, rotated, split_heads
from .elementwise_kernels import gelu, sigmoid
from .kernel_call import Array, Kernel, KernelCall
from .normalization_kernels import normalized, root_mean_square
from .quantization_kernels import saturated
from .window_kernels import average_pool, convolve

Activation = Callable[[Array], Array]


def _plus(x: Array, bias: Array | None) -> Array:
    return x if bias is None else x + bias


def _activated(name: str, x: Array, parameters: Any) -> Array:
    """An activation that onnxruntime fuses into another op."""
    a, b = [*parameters, 0.0, 0.0][:2]
    known: dict[str, Activation] = {
        "": lambda v: v,
        "Relu": lambda v: np.maximum(v, 0),
        "Sigmoid": sigmoid,
        "Tanh": np.tanh,
        "LeakyRelu": lambda v: np.where(v < 0, a * v, v),
        "Clip": lambda v: np.clip(v, a, b),
        "HardSigmoid": lambda v: np.clip(a * v + b, 0, 1),
    }
    return known[name](x)


def _swapped(x: Array, first: bool, last: bool) -> Array:
    """The operand of a FusedMatMul: with its first dim before the last one, or its last two dims swapped."""
    x = np.moveaxis(x, 0, -2) if first else x
    return np.swapaxes(x, -1, -2) if last and x.ndim > 1 else x


def _fused_matmul(call: KernelCall, a: Array, b: Array) -> Array:
    left = _swapped(a, bool(call.get("transBatchA")), bool(call.get("transA")))
    right = _swapped(b, bool(call.get("transBatchB")), bool(call.get("transB")))
    return call.get("alpha", 1.0) * (left @ right)


def _fused_gemm(call: KernelCall, a: Array, b: Array, c: Array | None = None) -> Array:
    product = (a.T if call.get("transA") else a) @ (b.T if call.get("transB") else b)
    y = call.get("alpha", 1.0) * product + (0 if c is None else call.get("beta", 1.0) * c)
    parameters = [call.get(f"activation_{n}") for n in ("alpha", "beta") if call.get(f"activation_{n}") is not None]
    return _activated(call.get("activation", ""), y, parameters)


def _fused_conv(call: KernelCall, x: Array, w: Array, bias: Array | None = None, z: Array | None = None) -> Array:
    y = convolve(call, x, w)
    y = _plus(y, None if bias is None else bias.reshape(-1, *(1,) * (x.ndim - 2)))
    return _activated(call.get("activation", ""), _plus(y, z), call.get("activation_params", ()))


def _skip_layer_normalization(
    call: KernelCall, x: Array, skip: Array, gamma: Array, beta: Array | None = None, bias: Array | None = None
) -> tuple[Array, ...]:
    total = _plus(x + skip, bias)
    y, mean, inverse = normalized(total, (total.ndim - 1,), call.get("epsilon", 1e-12))
    return _plus(y * gamma, beta), mean, inverse, total


def _simplified(call: KernelCall, x: Array, scale: Array) -> tuple[Array, ...]:
    axes = tuple(range(call.get("axis", -1) % x.ndim, x.ndim))
    root = root_mean_square(x, axes, call.get("epsilon", 1e-5))
    return x / root * scale, 1 / root


def _skip_simplified(
    call: KernelCall, x: Array, skip: Array, gamma: Array, bias: Array | None = None
) -> tuple[Array, ...]:
    total = _plus(x + skip, bias)
    root = root_mean_square(total, (total.ndim - 1,), call.get("epsilon", 1e-12))
    return total / root * gamma, np.zeros_like(root), 1 / root, total


def _multi_head_attention(
    call: KernelCall, q: Array, k: Array | None, v: Array | None, bias: Array | None = None,
    padding: Array | None = None, scores: Array | None = None, *rest: Array | None,
) -> Array:  # fmt: skip
    if q.ndim != 3 or k is None or v is None or k.ndim != 3 or padding is not None or any(r is not None for r in rest):
        raise NotImplementedError("only of queries, keys and values of 3 dims, without past or padding")
    if bias is not None:
        sizes = np.cumsum([q.shape[-1], k.shape[-1]])
        q, k, v = (x + b for x, b in zip((q, k, v), np.split(bias, sizes), strict=True))
    q, k, v = (split_heads(x, call.get("num_heads")) for x in (q, k, v))
    products = q @ np.swapaxes(k, -1, -2) * (call.get("scale") or 1 / np.sqrt(q.shape[-1]))
    products = _plus(products, None if scores is None else additive_mask(scores))
    if call.get("unidirectional"):
        allowed = np.tri(q.shape[2], k.shape[2], k=k.shape[2] - q.shape[2], dtype=np.bool_)
        products = np.where(allowed, products, -np.inf)
    return join_heads(attention_weights(products) @ v)


def _rotary_embedding(call: KernelCall, x: Array, positions: Array, cos: Array, sin: Array) -> Array:
    size = 2 * cos.shape[-1]
    heads = x if x.ndim == 4 else split_heads(x, call.get("num_heads") or x.shape[-1] // size)
    at = positions.reshape(-1, 1) + np.arange(heads.shape[2]) if positions.size == 1 else positions
    y = rotated(heads, cos[at][:, None], sin[at][:, None], interleaved=bool(call.get("interleaved")))
    return y if x.ndim == 4 else join_heads(y)


def _real(x: Array, scale: Array, zero: Array | None) -> Array:
    return (x.astype(np.float64) - (0 if zero is None else zero.astype(np.float64))) * scale


def _coded(y: Array, scale: Array, zero: Array | None, element_type: int) -> Array:
    return saturated(np.rint(y / scale) + (0 if zero is None else zero.astype(np.float64)), element_type)


def _quantized_binary(function: Callable[[Array, Array], Array]) -> Kernel:
    def kernel(
        call: KernelCall, a: Array, sa: Array, za: Any, b: Array, sb: Array, zb: Any, sc: Array, zc: Any = None
    ) -> Array:
        return _coded(function(_real(a, sa, za), _real(b, sb, zb)), sc, zc, call.input_type(0))

    return kernel


def _quantized_unary(function: Callable[[KernelCall, Array], Array]) -> Kernel:
    def kernel(call: KernelCall, x: Array, sx: Array, zx: Any, sy: Array, zy: Any = None) -> Array:
        return _coded(function(call, _real(x, sx, zx)), sy, zy, call.input_type(0))

    return kernel


def _leaky(call: KernelCall, x: Array) -> Array:
    return np.where(x < 0, call.get("alpha", 0.01) * x, x)


def _first_layout(function: Callable[[KernelCall, Array], Array]) -> Callable[[KernelCall, Array], Array]:
    """A function on images that are (N, C, ...), or (N, ..., C) by the attribute `channels_last`."""

    def applied(call: KernelCall, x: Array) -> Array:
        if not call.get("channels_last"):
            return function(call, x)
        return np.moveaxis(function(call, np.moveaxis(x, -1, 1)), 1, -1)

    return applied


def _global_average(_: KernelCall, x: Array) -> Array:
    return np.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def _quantized_concat(call: KernelCall, scale: Array, zero: Array, *rest: Array) -> Array:
    parts = [_real(rest[i], rest[i + 1], rest[i + 2]) for i in range(0, len(rest), 3)]
    return _coded(np.concatenate(parts, call.get("axis")), scale, zero, call.input_type(1))


def _integer_product(
    call: KernelCall, a: Array, b: Array, sa: Array, sb: Array, za: Any = None, zb: Any = None, bias: Any = None
) -> Array:
    return _plus(_real(a, sa, za) @ _real(b, sb, zb), bias)


def _dynamic_product(call: KernelCall, a: Array, b: Array, scale: Array, zero: Any = None, bias: Any = None) -> Array:
    codes, factor, offset = quantization_kernels.quantize_dynamically(a)
    return _plus(_real(codes, factor, offset) @ _real(b, scale, zero), bias)


KERNELS: Mapping[str, Kernel] = {
    "BiasGelu": lambda _, x, bias: gelu(x + bias),
    "DequantizeLinear": quantization_kernels.KERNELS["DequantizeLinear"],
    "DynamicQuantizeMatMul": _dynamic_product,
    "ExpandDims": lambda _, x, axis: np.expand_dims(x, int(axis.reshape(-1)[0])),
    "FastGelu": lambda _, x, bias=None: gelu(_plus(x, bias), "tanh"),
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": lambda _, x: gelu(x),
    "Inverse": lambda _, x: np.linalg.inv(x),
    "MatMulIntegerToFloat": _integer_product,
    "MultiHeadAttention": _multi_head_attention,
    "QLinearAdd": _quantized_binary(np.add),
    "QLinearAveragePool": _quantized_unary(_first_layout(average_pool)),
    "QLinearConcat": _quantized_concat,
    "QLinearGlobalAveragePool": _quantized_unary(_first_layout(_global_average)),
    "QLinearLeakyRelu": _quantized_unary(_leaky),
    "QLinearMul": _quantized_binary(np.multiply),
    "QLinearSigmoid": _quantized_unary(lambda _, x: sigmoid(x)),
    "QuantizeLinear": quantization_kernels.KERNELS["QuantizeLinear"],
    "QuickGelu": lambda call, x: x * sigmoid(call.get("alpha", 1.702) * x),
    "RotaryEmbedding": _rotary_embedding,
    "SkipLayerNormalization": _skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
    "TransposeMatMul": _fused_matmul,
    "Trilu": movement_kernels.KERNELS["Trilu"],
}
STANDARD_DOMAIN: Mapping[str, Kernel] = {"SimplifiedLayerNormalization": _simplified}
"""Those that onnxruntime adds to the standard domain."""
