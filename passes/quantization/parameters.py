"""Scales, zero points, and the quantized form of values and weights."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from ...core import Build, Op, QuantizationSpec, Range, Value, require
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..cleanup.quantization import MAX_DEPTH, MOVEMENTS
from ..support.operand_queries import Array, known, operand, required_producer, required_scalar

PER_CHANNEL_OPSET = 13  # of DequantizeLinear with one scale for each index of an axis
HALF_OPSET = 19  # of QuantizeLinear for half precision
MAX_BIAS = 1 << 30  # as an int32, with a bit to spare for what is added to it


def quantization_spec(g: Build, operator: str) -> QuantizationSpec:
    """The spec of the running pipeline; declines without one, and operators that its target does not compute so."""
    spec = known(g.graph.context.quantization, "the pipeline does not quantize")
    require(operator in spec.operators, f"the target has no {operator} of integers that is faster")
    return spec


def integer_limits(dtype: int) -> tuple[int, int]:
    """The least and the greatest integer of an element type."""
    limits: Any = ml_dtypes.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    return int(limits.min), int(limits.max)


def activation_parameters(given: Range, dtype: int) -> tuple[np.float32, int]:
    """The scale and the zero point with which integers of a type represent a range, which is extended to 0.

    0 is represented exactly, as padding has to be. A range of 0 alone gets the scale 1.
    """
    low, high = min(given.low, 0.0), max(given.high, 0.0)
    least, greatest = integer_limits(dtype)
    scale = np.float32((high - low) / (greatest - least))
    if not np.isfinite(scale) or scale < np.finfo(np.float32).tiny:
        return np.float32(1), 0
    return scale, int(np.clip(np.rint(least - low / float(scale)), least, greatest))


def is_dequantized(v: Value) -> bool:
    """Whether a value is the output of a DequantizeLinear."""
    return v.producer is not None and v.producer.type == "DequantizeLinear" and not v.producer.domain


def is_quantized(op: Op) -> bool:
    """Whether all readers of the first output of an op quantize it."""
    readers = op.outputs[0].consumers
    return bool(readers) and all(r.type == "QuantizeLinear" for r in readers) and not op.graph.is_output(op.outputs[0])


def source_of_movement(v: Value) -> Op | None:
    """The DequantizeLinear whose numbers an op, or several, have moved to `v`, or that made it; None for others."""
    for _ in range(MAX_DEPTH):
        maker = v.producer
        if maker is None or maker.domain:
            return None
        if maker.type == "DequantizeLinear":
            return maker if maker.inputs[1] is not None and maker.inputs[1].const.size == 1 else None
        if maker.type not in (*MOVEMENTS, "MaxPool", "Split") or maker.inputs[0] is None:
            return None
        v = maker.inputs[0]
    return None


def quantized(g: Build, v: Value, of: Value | None = None) -> Value:
    """DequantizeLinear(QuantizeLinear(v)), with the calibrated range of the value `of`, `v` itself by default.

    `v` itself if it is dequantized already; with the same parameters if it was moved since. Declines values without a
    range, and those that are not of half or single precision.
    """
    if is_dequantized(v):
        return v
    dequantize = source_of_movement(v)
    if of is None and dequantize is not None:
        return g.DequantizeLinear(g.QuantizeLinear(v, *dequantize.inputs[1:]), *dequantize.inputs[1:])
    source = v if of is None else of
    spec = known(g.graph.context.quantization, "the pipeline does not quantize")
    return with_parameters(g, v, known(spec.ranges.get(source.name), f"{source.name} has no calibrated range"), source)


def with_parameters(g: Build, v: Value, given: Range, like: Value) -> Value:
    """DequantizeLinear(QuantizeLinear(v)) for that range, of the element type of `like`."""
    spec = known(g.graph.context.quantization, "the pipeline does not quantize")
    require(like.dtype in HALF_OR_SINGLE, f"{like.name} is not of half or single precision")
    require(
        like.dtype == TensorProto.FLOAT or g.opset >= HALF_OPSET,
        f"no QuantizeLinear of halves before opset {HALF_OPSET}",
    )
    scale, zero = activation_parameters(given, spec.activations)
    parameters = g.const(scale, like=like), g.const(np.array(zero, helper.tensor_dtype_to_np_dtype(spec.activations)))
    return g.DequantizeLinear(g.QuantizeLinear(v, *parameters), *parameters)


def quantized_constant(g: Build, v: Value) -> Value:
    """A constant operand as activations are quantized, with its own range."""
    numbers = constant_weights(v)
    return with_parameters(g, v, Range(float(numbers.min()), float(numbers.max())), v)


def scale_of(x: Value) -> float:
    """The scale of a dequantized value."""
    maker = required_producer(x, "DequantizeLinear")
    return float(required_scalar(operand(maker, 1)))


def weight_scales(weights: Array, limit: int, axis: int | None) -> Array:
    """The scales, in float64, with which `limit` represents the largest weight: one number, or one along `axis`."""
    others = None if axis is None else tuple(i for i in range(weights.ndim) if i != axis)
    largest = np.abs(weights).max(axis=others, initial=0.0).astype(np.float64)
    return np.where(largest > 0, largest / limit, 1.0)


def along(scales: Array, rank: int, axis: int | None) -> Array:
    """Scales, reshaped to broadcast along `axis` of a tensor."""
    return scales if axis is None else scales.reshape([-1 if i == axis else 1 for i in range(rank)])


def constant_weights(w: Value) -> Array:
    """The elements of constant weights, in float64; declines those that cannot be quantized."""
    require(w.dtype in HALF_OR_SINGLE, f"{w.name} is not of half or single precision")
    weights = w.const.astype(np.float64)
    require(weights.size > 0 and bool(np.isfinite(weights).all()), f"{w.name} is empty or not finite")
    return weights


def quantized_weight(g: Build, like: Value, weights: Array, scales: Array, axis: int | None) -> Value:
    """DequantizeLinear of weights as integers with `scales`, those of an `axis` if it is given."""
    spec = known(g.graph.context.quantization, "the pipeline does not quantize")
    zero = 128 if spec.weights == TensorProto.UINT8 else 0
    limit = spec.weight_limit
    kind = helper.tensor_dtype_to_np_dtype(spec.weights)
    integers = np.clip(np.rint(weights / along(scales, weights.ndim, axis)), -limit, limit) + zero
    zeros = np.full(scales.shape, zero, kind)
    parameters = g.const(integers.astype(kind)), g.const(scales, like=like), g.const(zeros)
    return g.DequantizeLinear(*parameters, axis=axis if scales.ndim else None)


def quantized_bias(g: Build, like: Value, bias: Array, scales: Array) -> Value:
    """DequantizeLinear of a bias as int32, with one scale or one for each element."""
    integers = g.const(np.rint(bias / scales).astype(np.int32))
    zeros = g.const(np.zeros(scales.shape, np.int32))
    return g.DequantizeLinear(integers, g.const(scales, like=like), zeros, axis=0 if scales.ndim else None)
