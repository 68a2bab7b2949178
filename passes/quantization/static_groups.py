"""Groups of QuantizeLinear, DequantizeLinear and an operator, which onnxruntime computes on integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import LOSSY, Build, Op, RulePass, Value, require, rule
from ..arithmetic.clamp_rules import required_clamp
from ..arithmetic.value_ranges import CLAMPS
from ..linear.convolution import group_count
from ..linear.weighted_products import alpha_or_beta
from ..support.operand_queries import Array, known, operand, unless_declined
from .parameters import (
    MAX_BIAS,
    PER_CHANNEL_OPSET,
    constant_weights,
    is_quantized,
    quantization_spec,
    quantized,
    quantized_bias,
    quantized_constant,
    quantized_weight,
    scale_of,
    source_of_movement,
    weight_scales,
)

UNARY_OPS = ("Sigmoid", "Softmax", "LeakyRelu", "AveragePool", "GlobalAveragePool")
ADDITIVE_OPS = ("Add", "Mul", "Concat")


def require_root(op: Op, clamp: Op | None) -> Value:
    """The value of a group: the output of the clamp behind an op, or its own; declines one that another root has."""
    out = op.outputs[0]
    if clamp is not None:
        required_clamp(clamp)
        return clamp.outputs[0]
    readers = list(out.consumers)
    is_clamped = len(readers) == 1 and not op.graph.is_output(out) and readers[0].type in CLAMPS
    require(not is_clamped or unless_declined(required_clamp, readers[0]) is None, "it is quantized behind its clamp")
    require(not is_quantized(op), "it is quantized")
    return out


def quantized_linear(
    g: Build, op: Op, of: Value, w: Array, axis: int | None, bias: Array | None, **attrs: Any
) -> Value:
    """An op of a value, constant weights and a bias, quantized; the range is that of `of`.

    `axis` is that of the output channels of the weights, with a scale for each.
    """
    spec = quantization_spec(g, op.type)
    x = quantized(g, operand(op))
    axis = axis if spec.per_channel and g.opset >= PER_CHANNEL_OPSET else None
    scales = weight_scales(w, spec.weight_limit, axis)
    biases: tuple[Value, ...] = ()
    if bias is not None:
        x_scale = scale_of(x)
        largest = np.abs(bias) if axis is not None else np.abs(bias).max(initial=0.0)
        scales = np.maximum(scales, largest / (MAX_BIAS * x_scale))
        biases = (quantized_bias(g, operand(op), bias, x_scale * scales.astype(np.float32)),)
    weights = quantized_weight(g, operand(op, 1), w, scales, axis)
    return quantized(g, getattr(g, op.type)(x, weights, *biases, **attrs), of)


@rule(
    lambda g, w, conv, clamp: g.one_of(*CLAMPS)(g.Conv(..., g.const(w), ...) @ conv, ...) @ clamp,
    lambda g, w, conv: g.Conv(..., g.const(w), ...) @ conv,
    contract=LOSSY,
)
def quantize_conv(g: Build, conv: Op, clamp: Op | None = None) -> Value:
    """Conv(x, w, b) => Quantized(Conv(Quantized(x), w as int8, b as int32)); so with a Relu or Clip behind it"""
    of, b = require_root(conv, clamp), conv.input(2)
    w = operand(conv, 1)
    group_count(conv, w)
    bias = None if b is None else b.const.astype(np.float64)
    return quantized_linear(g, conv, of, constant_weights(w), 0, bias, **conv.attrs)


@rule(
    lambda g, w, product, clamp: g.one_of(*CLAMPS)(g.MatMul(..., g.const(w)) @ product, ...) @ clamp,
    lambda g, w, product: g.MatMul(..., g.const(w)) @ product,
    contract=LOSSY,
)
def quantize_matmul(g: Build, w: Value, product: Op, clamp: Op | None = None) -> Value:
    """MatMul(x, w) => Quantized(MatMul(Quantized(x), w as int8)); so with a Relu or Clip behind it"""
    of = require_root(product, clamp)
    require(product.inputs[1] is w, "the weights are the first factor")
    return quantized_linear(g, product, of, constant_weights(w), 1 if w.rank == 2 else None, None)


@rule(
    lambda g, w, gemm, clamp: g.one_of(*CLAMPS)(g.Gemm(..., g.const(w), ...) @ gemm, ...) @ clamp,
    lambda g, w, gemm: g.Gemm(..., g.const(w), ...) @ gemm,
    contract=LOSSY,
)
def quantize_gemm(g: Build, gemm: Op, clamp: Op | None = None) -> Value:
    """Gemm(x, w, b) => Quantized(Gemm(Quantized(x), w as int8, b as int32)); so with a Relu or Clip behind it"""
    of, w, b = require_root(gemm, clamp), operand(gemm, 1), gemm.input(2)
    weights = constant_weights(w) * alpha_or_beta(gemm, "alpha")
    axis = 0 if gemm.attr("transB", 0) else 1
    columns = weights.shape[axis]
    bias = None
    if b is not None:
        require(b.rank == 1 or (b.rank == 2 and b.static_shape[0] == 1), f"{b.name} is not one row")
        bias = np.broadcast_to(b.const.astype(np.float64).reshape(-1) * alpha_or_beta(gemm, "beta"), columns)
    attrs = {name: gemm.attr(name, 0) for name in ("transA", "transB") if gemm.attr(name, 0)}
    return quantized_linear(g, gemm, of, weights, axis, bias, **attrs)


@rule(
    lambda g, product, clamp: g.one_of(*CLAMPS)(g.MatMul(...) @ product, ...) @ clamp,
    lambda g, product: g.MatMul(...) @ product,
    contract=LOSSY,
)
def quantize_product(g: Build, product: Op, clamp: Op | None = None) -> Value:
    """MatMul(x, y) => Quantized(MatMul(x, y)), where x and y are dequantized"""
    quantization_spec(g, "MatMul")
    of = require_root(product, clamp)
    factors = [quantized(g, dequantized_operand(v)) for v in product.inputs]
    return quantized(g, g.MatMul(*factors), of)


@rule(
    lambda g, op, clamp: g.one_of(*CLAMPS)(g.one_of(*ADDITIVE_OPS)(...) @ op, ...) @ clamp,
    lambda g, op: g.one_of(*ADDITIVE_OPS)(...) @ op,
    contract=LOSSY,
)
def quantize_sum(g: Build, op: Op, clamp: Op | None = None) -> Value:
    """Add(x, y) => Quantized(Add(x, y)), where x and y are dequantized or constant; so for Mul, Concat"""
    quantization_spec(g, op.type)
    of = require_root(op, clamp)
    require(any(v is not None and not v.is_const for v in op.inputs), "it is constant")
    parts = [quantized_constant(g, v) if v.is_const else quantized(g, dequantized_operand(v)) for v in filled(op)]
    return quantized(g, getattr(g, op.type)(*parts, **op.attrs), of)


@rule(
    lambda g, op, clamp: g.one_of(*CLAMPS)(g.one_of(*UNARY_OPS)(...) @ op, ...) @ clamp,
    lambda g, op: g.one_of(*UNARY_OPS)(...) @ op,
    contract=LOSSY,
)
def quantize_unary(g: Build, op: Op, clamp: Op | None = None) -> Value:
    """Sigmoid(x) => Quantized(Sigmoid(x)), where x is dequantized; so for Softmax, LeakyRelu and average pools"""
    quantization_spec(g, op.type)
    of = require_root(op, clamp)
    x = quantized(g, dequantized_operand(operand(op)))
    return quantized(g, getattr(g, op.type)(x, **op.attrs), of)


def filled(op: Op) -> list[Value]:
    """The inputs of an op, none of which may be left out."""
    return [operand(op, i) for i in range(len(op.inputs))]


def dequantized_operand(v: Value | None) -> Value:
    """A value whose integers are there, perhaps moved; declines others, for which they would only be made."""
    v = known(v, "an operand is left out")
    require(source_of_movement(v) is not None, f"{v.name} is not quantized for another op")
    return v


QUANTIZE_STATIC = RulePass(
    "quantize-static",
    (quantize_conv, quantize_matmul, quantize_gemm, quantize_product, quantize_sum, quantize_unary),
)
"""Integer arithmetic with calibrated ranges of activations."""
