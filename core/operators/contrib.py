"""Operators of onnxruntime in com.microsoft, defined by standard operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .attention import additive_mask, attention_weights, join_heads, rotated, split_heads
from .declaration import Family
from .element_types import Array, type_at
from .elementwise import gelu, hard_sigmoid, leaky_relu, sigmoid, swish
from .movement import trilu
from .normalization import last_axes, normalized, root_mean_square
from .quantization import dequantize, quantize, quantize_dynamically, saturated
from .window import average_pool, convolve, global_average_pool

CONTRIB = Family()
STANDARD_DOMAIN = Family()
"""Operators that onnxruntime adds to the standard domain."""
Activation = Callable[[Array], Array]


def _plus(x: Array, bias: Array | None) -> Array:
    return x if bias is None else x + bias


def _activated(name: str, x: Array, parameters: Sequence[float]) -> Array:
    """An activation that onnxruntime fuses into another op."""
    a, b = [*parameters, 0.0, 0.0][:2]
    known: dict[str, Activation] = {
        "": lambda v: v,
        "Relu": lambda v: np.maximum(v, 0),
        "Sigmoid": sigmoid,
        "Tanh": np.tanh,
        "LeakyRelu": lambda v: leaky_relu(v, alpha=a),
        "Clip": lambda v: np.clip(v, a, b),
        "HardSigmoid": lambda v: hard_sigmoid(v, alpha=a, beta=b),
    }
    return known[name](x)


def _swapped(x: Array, first: bool, last: bool) -> Array:
    """The operand of a FusedMatMul, with its first dim moved before the last one, or its last two dims swapped."""
    x = np.moveaxis(x, 0, -2) if first else x
    return np.swapaxes(x, -1, -2) if last and x.ndim > 1 else x


@CONTRIB.operator("FusedMatMul TransposeMatMul")
def _fused_matmul(
    a: Array, b: Array, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Array:  # fmt: skip
    return alpha * (_swapped(a, bool(transBatchA), bool(transA)) @ _swapped(b, bool(transBatchB), bool(transB)))


@CONTRIB.operator("FusedGemm")
def _fused_gemm(
    a: Array, b: Array, c: Array | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0, activation: str = "", activation_alpha: float | None = None, activation_beta: float | None = None,
) -> Array:  # fmt: skip
    y = alpha * ((a.T if transA else a) @ (b.T if transB else b)) + (0 if c is None else beta * c)
    return _activated(activation, y, [v for v in (activation_alpha, activation_beta) if v is not None])


@CONTRIB.operator("FusedConv")
def _fused_conv(
    x: Array, w: Array, bias: Array | None = None, z: Array | None = None, *, activation: str = "",
    activation_params: Sequence[float] = (), **settings: Any,
) -> Array:  # fmt: skip
    y = convolve(x, w, **settings)
    y = _plus(y, None if bias is None else bias.reshape(-1, *(1,) * (x.ndim - 2)))
    return _activated(activation, _plus(y, z), activation_params)


@CONTRIB.operator("SkipLayerNormalization")
def _skip_layer_normalization(
    x: Array, skip: Array, gamma: Array, beta: Array | None = None, bias: Array | None = None, *,
    epsilon: float = 1e-12,
) -> tuple[Array, ...]:  # fmt: skip
    total = _plus(x + skip, bias)
    y, mean, inverse = normalized(total, (total.ndim - 1,), epsilon)
    return _plus(y * gamma, beta), mean, inverse, total


@STANDARD_DOMAIN.operator("SimplifiedLayerNormalization")
def _simplified(x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5) -> tuple[Array, ...]:
    root = root_mean_square(x, last_axes(x, axis), epsilon)
    return x / root * scale, 1 / root


@CONTRIB.operator("SkipSimplifiedLayerNormalization")
def _skip_simplified(
    x: Array, skip: Array, gamma: Array, bias: Array | None = None, *, epsilon: float = 1e-12
) -> tuple[Array, ...]:
    total = _plus(x + skip, bias)
    root = root_mean_square(total, (total.ndim - 1,), epsilon)
    return total / root * gamma, np.zeros_like(root), 1 / root, total


@CONTRIB.operator("MultiHeadAttention")
def _multi_head_attention(
    q: Array, k: Array | None, v: Array | None, bias: Array | None = None, padding: Array | None = None,
    mask: Array | None = None, *rest: Array | None, num_heads: int, scale: float = 0.0, unidirectional: int = 0,
) -> Array:  # fmt: skip
    if q.ndim != 3 or k is None or v is None or k.ndim != 3 or padding is not None or any(r is not None for r in rest):
        raise NotImplementedError("only for queries, keys and values with 3 dims, without past or padding")
    if bias is not None:
        sizes = np.cumsum([q.shape[-1], k.shape[-1]])
        q, k, v = (x + b for x, b in zip((q, k, v), np.split(bias, sizes), strict=True))
    q, k, v = (split_heads(x, num_heads) for x in (q, k, v))
    products = q @ np.swapaxes(k, -1, -2) * (scale or q.shape[-1] ** -0.5)
    products = _plus(products, None if mask is None else additive_mask(mask))
    if unidirectional:
        allowed = np.tri(q.shape[2], k.shape[2], k=k.shape[2] - q.shape[2], dtype=np.bool_)
        products = np.where(allowed, products, -np.inf)
    return join_heads(attention_weights(products) @ v)


@CONTRIB.operator("RotaryEmbedding")
def _rotary_embedding(
    x: Array, positions: Array, cos: Array, sin: Array, *, num_heads: int = 0, interleaved: int = 0
) -> Array:
    size = 2 * cos.shape[-1]
    heads = x if x.ndim == 4 else split_heads(x, num_heads or x.shape[-1] // size)
    at = positions.reshape(-1, 1) + np.arange(heads.shape[2]) if positions.size == 1 else positions
    y = rotated(heads, cos[at][:, None], sin[at][:, None], interleaved=bool(interleaved))
    return y if x.ndim == 4 else join_heads(y)


def _real(x: Array, scale: Array, zero: Array | None) -> Array:
    return (x.astype(np.float64) - (0 if zero is None else zero.astype(np.float64))) * scale


def _coded(y: Array, scale: Array, zero: Array | None, element_type: int) -> Array:
    return saturated(np.rint(y / scale) + (0 if zero is None else zero.astype(np.float64)), element_type)


def _quantized_binary(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def coded(
        a: Array, sa: Array, za: Any, b: Array, sb: Array, zb: Any, sc: Array, zc: Any = None, *,
        input_types: Sequence[int],
    ) -> Array:  # fmt: skip
        return _coded(function(_real(a, sa, za), _real(b, sb, zb)), sc, zc, type_at(input_types, 0))

    return coded


CONTRIB.declare("QLinearAdd", meaning=_quantized_binary(np.add))
CONTRIB.declare("QLinearMul", meaning=_quantized_binary(np.multiply))


def _quantized_unary(function: Callable[..., Array]) -> Callable[..., Array]:
    """The meaning of a function of an array and named attributes, on quantized values."""

    def coded(
        x: Array, sx: Array, zx: Any, sy: Array, zy: Any = None, *, input_types: Sequence[int], **settings: Any
    ) -> Array:
        return _coded(function(_real(x, sx, zx), **settings), sy, zy, type_at(input_types, 0))

    return coded


def _first_layout(function: Callable[..., Array]) -> Callable[..., Array]:
    """Apply a function to images that are (N, C, ...), or (N, ..., C) according to the attribute `channels_last`."""

    def applied(x: Array, *, channels_last: int = 0, **settings: Any) -> Array:
        if not channels_last:
            return function(x, **settings)
        return np.moveaxis(function(np.moveaxis(x, -1, 1), **settings), 1, -1)

    return applied


CONTRIB.declare("QLinearAveragePool", meaning=_quantized_unary(_first_layout(average_pool)))
CONTRIB.declare("QLinearGlobalAveragePool", meaning=_quantized_unary(_first_layout(global_average_pool)))
CONTRIB.declare("QLinearLeakyRelu", meaning=_quantized_unary(leaky_relu))
CONTRIB.declare("QLinearSigmoid", meaning=_quantized_unary(sigmoid))


@CONTRIB.operator("QLinearConcat")
def _quantized_concat(scale: Array, zero: Array, *rest: Array, axis: int, input_types: Sequence[int]) -> Array:
    parts = [_real(rest[i], rest[i + 1], rest[i + 2]) for i in range(0, len(rest), 3)]
    return _coded(np.concatenate(parts, axis), scale, zero, type_at(input_types, 1))


@CONTRIB.operator("MatMulIntegerToFloat")
def _integer_product(
    a: Array, b: Array, sa: Array, sb: Array, za: Any = None, zb: Any = None, bias: Any = None
) -> Array:
    return _plus(_real(a, sa, za) @ _real(b, sb, zb), bias)


@CONTRIB.operator("DynamicQuantizeMatMul")
def _dynamic_product(a: Array, b: Array, scale: Array, zero: Any = None, bias: Any = None) -> Array:
    codes, factor, offset = quantize_dynamically(a)
    return _plus(_real(codes, factor, offset) @ _real(b, scale, zero), bias)


@CONTRIB.operator("BiasGelu")
def _bias_gelu(x: Array, bias: Array) -> Array:
    return gelu(x + bias)


@CONTRIB.operator("FastGelu")
def _fast_gelu(x: Array, bias: Array | None = None) -> Array:
    return gelu(_plus(x, bias), approximate="tanh")


@CONTRIB.operator("QuickGelu")
def _quick_gelu(x: Array, *, alpha: float = 1.702) -> Array:
    return swish(x, alpha=alpha)


@CONTRIB.operator("ExpandDims")
def _expand_dims(x: Array, axis: Array) -> Array:
    return np.expand_dims(x, int(axis.reshape(-1)[0]))


@CONTRIB.operator("Inverse")
def _inverse(x: Array) -> Array:
    return np.linalg.inv(x)


CONTRIB.declare("Gelu", meaning=gelu)
CONTRIB.declare("DequantizeLinear", meaning=dequantize)
CONTRIB.declare("QuantizeLinear", meaning=quantize)
CONTRIB.declare("Trilu", meaning=trilu)
