"""Scales, zero points, and the quantized form of values and weights.

A rule for another operator that a target computes on integers:

    @rule(lambda g, op: g.Round(...) @ op, contract=LOSSY)
    def quantize_round(g: RewriteBuilder, op: Op) -> Value:
        "Round(x) => Quantized(Round(x)), where x is dequantized"
        x, rounded = operand(op), op.outputs[0]
        require(has_integers(g, x) and not is_quantized(g, op), f"{x.name} is not quantized for another op, or it is")
        return quantized(g, g.Round(quantized(g, x)), of=rounded)
"""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from ...core import Op, QuantizationSpec, Range, RewriteBuilder, Value, require
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..arithmetic.value_ranges import ValueRange
from ..support.operand_queries import Array, known, operand, required_producer, required_scalar

PER_CHANNEL_OPSET = 13  # of DequantizeLinear with one scale for each index of an axis
MAX_BIAS = 1 << 30  # as an int32, with a bit to spare for what is added to it
TINY, HUGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
UNBOUNDED = ValueRange()
GATES = ("HardSigmoid", "HardSwish")


def required_spec(g: RewriteBuilder) -> QuantizationSpec:
    """The spec of the running pipeline; declines without one."""
    return known(g.graph.context.quantization, "the pipeline does not quantize")


def quantization_spec(g: RewriteBuilder, operator: str) -> QuantizationSpec:
    """As `required_spec`; declines operators that the target does not compute on integers, too."""
    spec = required_spec(g)
    require(operator in spec.operators, f"the target has no {operator} of integers that is faster")
    return spec


def require_min_weights(spec: QuantizationSpec, *weights: Value) -> None:
    """Decline fewer weights than the spec asks for. Does not read them."""
    count = sum(prod(w.static_shape) for w in weights)
    names = " and ".join(w.name for w in weights)
    require(count >= spec.min_weights, f"{names}: {count} weights are too few to gain from, under {spec.min_weights}")


def integer_limits(dtype: int) -> tuple[int, int]:
    """The least and the greatest integer of an element type."""
    limits: Any = ml_dtypes.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    return int(limits.min), int(limits.max)


def activation_parameters(given: Range, dtype: int, within: ValueRange = UNBOUNDED) -> tuple[np.float32, int]:
    """The scale and the zero point with which integers of a type represent a range, which is extended to 0.

    0 is represented exactly, as padding has to be. The integers represent no number beyond the bounds `within`, between
    which 0 is, so that a clamp to them changes nothing. A range of 0 alone gets the scale 1.
    """
    low, high = min(max(given.low, within.low), 0.0), max(min(given.high, within.high), 0.0)
    least, greatest = integer_limits(dtype)
    scale = (high - low) / (greatest - least)
    if scale < TINY:
        return np.float32(1), int(np.clip(0, least, greatest))
    zero = int(np.clip(np.rint(least - low / scale), least, greatest))
    if zero > least:
        scale = min(scale, within.low / (least - zero))
    if zero < greatest:
        scale = min(scale, within.high / (greatest - zero))
    return np.float32(scale), zero


def dequantizer(g: RewriteBuilder, v: Value) -> Op | None:
    """The DequantizeLinear that makes a value of activations, one scale for all; None if there is none.

    It may be in an outer graph. Declines a value dequantized in another form, which the ops of integers do not take.
    """
    maker = v.producer
    if maker is None or maker.type != "DequantizeLinear" or maker.domain:
        return None
    scale, zero = operand(maker, 1), maker.input(2)
    plain = scale.is_const and scale.const.size == 1 and zero is not None and zero.is_const
    require(plain and operand(maker).dtype == required_spec(g).activations, f"{v.name} is quantized in another form")
    return maker


def is_dequantized(g: RewriteBuilder, v: Value) -> bool:
    """Whether a DequantizeLinear in this graph makes a value of activations."""
    maker = dequantizer(g, v)
    return maker is not None and maker.graph is g.graph


def has_integers(g: RewriteBuilder, v: Value) -> bool:
    """Whether a value is dequantized, or quantized for another op."""
    return dequantizer(g, v) is not None or any(r.type == "QuantizeLinear" and r.graph is g.graph for r in v.consumers)


def is_quantized(g: RewriteBuilder, op: Op) -> bool:
    """Whether all inputs of an op are dequantized and all readers quantize its result."""
    out = op.outputs[0]
    readers = [r.type for r in out.consumers]
    is_inner = bool(readers) and set(readers) == {"QuantizeLinear"} and not op.graph.is_output(out)
    return is_inner and all(v is None or is_dequantized(g, v) for v in op.inputs)


def range_of(g: RewriteBuilder, v: Value) -> Range:
    """The calibrated range of a value; declines values without one, and ranges that are not finite."""
    given = known(required_spec(g).ranges.get(v.name), f"{v.name} has no calibrated range")
    require(-HUGE <= given.low <= given.high <= HUGE, f"the range of {v.name} is not finite: {given.low}, {given.high}")
    return given


def gate_slope(op: Op) -> float:
    """The slope of a HardSigmoid, or of the one by which HardSwish multiplies."""
    return float(op.attr("alpha", 0.2)) if op.type == "HardSigmoid" else 1 / 6


def linear_range(op: Op) -> Range | None:
    """The ends of the line from 0 to 1 of a HardSigmoid, or of the one in a HardSwish; None if 0 is outside."""
    slope, offset = gate_slope(op), float(op.attr("beta", 0.5)) if op.type == "HardSigmoid" else 0.5
    return Range(-offset / slope, (1 - offset) / slope) if slope > 0 and 0 < offset < 1 else None


def gated_range(g: RewriteBuilder, v: Value, given: Range) -> Range:
    """The range of a value with an integer where its gates begin, if such alone read it; else `given`.

    It begins there, as all numbers below have the same result.
    """
    readers = list(v.consumers)
    bounds = {linear_range(r) if r.type in GATES and not r.domain else None for r in readers}
    starts = bounds.pop() if len(bounds) == 1 and not g.graph.is_output(v) else None
    if starts is None:
        return given
    is_clamped = all(r.type == "HardSigmoid" for r in readers)
    high = max(min(given.high, starts.high) if is_clamped else given.high, 0.0)
    least, greatest = integer_limits(required_spec(g).activations)
    steps = np.floor((greatest - least) * starts.low / (starts.low - high))  # from the start to 0
    return Range(starts.low, starts.low * (1 - (greatest - least) / steps)) if steps else given


def quantized(g: RewriteBuilder, v: Value, of: Value | None = None, within: ValueRange = UNBOUNDED) -> Value:
    """DequantizeLinear(QuantizeLinear(v)), with the calibrated range of the value `of`, `v` itself by default.

    `v` itself if it is dequantized already. Declines values without a range, and those not of single precision.
    """
    maker = dequantizer(g, v)
    if maker is not None:  # only a reader beside it is fused with it
        return v if maker.graph is g.graph else g.DequantizeLinear(*maker.inputs)
    source = v if of is None else of
    return with_parameters(g, v, gated_range(g, source, range_of(g, source)), source, within)


def with_parameters(g: RewriteBuilder, v: Value, given: Range, like: Value, within: ValueRange = UNBOUNDED) -> Value:
    """DequantizeLinear(QuantizeLinear(v)) for that range; `like` has the element type of `v`."""
    require_single(like)
    activations = required_spec(g).activations
    scale, zero = activation_parameters(given, activations, within)
    parameters = g.const(scale), g.const(np.array(zero, helper.tensor_dtype_to_np_dtype(activations)))
    return g.DequantizeLinear(g.QuantizeLinear(v, *parameters), *parameters)


def require_single(v: Value) -> None:
    """Decline values not of single precision: onnxruntime computes no group of another on integers."""
    require(v.dtype == TensorProto.FLOAT, f"{v.name} is not of single precision")


def quantized_constant(g: RewriteBuilder, v: Value) -> Value:
    """A constant operand as activations are quantized, with its own range."""
    numbers = constant_weights(v)
    return with_parameters(g, v, Range(float(numbers.min()), float(numbers.max())), v)


def scale_of(x: Value) -> float:
    """The scale of a dequantized value."""
    return float(required_scalar(operand(required_producer(x, "DequantizeLinear"), 1)))


def weight_scales(weights: Array, limit: int, axis: int | None) -> Array:
    """The scales, in float64, with which `limit` represents the largest weight: one number, or one along `axis`.

    0 where all weights are 0.
    """
    others = None if axis is None else tuple(i for i in range(weights.ndim) if i != axis)
    return np.abs(weights).max(axis=others, initial=0.0).astype(np.float64) / limit


def usable_scales(scales: Array, x_scale: float, bias: Array | None) -> Array:
    """Scales of weights, in float32, at least as large as given, with which an int32 of scale * `x_scale` holds a bias.

    The products have all digits of a float32. Declines scales that are too large for one.
    """
    if bias is not None:
        largest = np.abs(bias) if scales.ndim else np.abs(bias).max(initial=0.0)
        scales = np.maximum(scales, largest / (MAX_BIAS * x_scale))
    scales = np.where(scales > 0, np.maximum(scales, TINY / min(x_scale, 1.0)), 1.0)
    require(bool((scales * max(x_scale, 1.0) <= HUGE).all()), "the weights or the bias are too large for a scale")
    return scales.astype(np.float32)


def along(scales: Array, rank: int, axis: int | None) -> Array:
    """Scales, reshaped to broadcast along `axis` of a tensor."""
    return scales if axis is None else scales.reshape([-1 if i == axis else 1 for i in range(rank)])


def constant_weights(w: Value) -> Array:
    """The elements of constant weights of single precision, in float64; declines those that cannot be quantized."""
    require_single(w)
    return float_weights(w)


def float_weights(w: Value) -> Array:
    """As `constant_weights`, of half precision too."""
    require(w.dtype in HALF_OR_SINGLE, f"{w.name} is not of half or single precision")
    weights = w.const.astype(np.float64)
    require(weights.size > 0 and bool(np.isfinite(weights).all()), f"{w.name} is empty or not finite")
    return weights


def constant_bias(b: Value) -> Array:
    """The elements of a constant bias, in one dim and in float64; declines those that differ from row to row."""
    numbers = b.const.astype(np.float64)
    is_row = numbers.ndim < 2 or numbers.size == numbers.shape[-1]
    require(is_row and bool(np.isfinite(numbers).all()), f"{b.name} is not one row of finite numbers")
    return numbers.reshape(-1)


def quantized_weight(g: RewriteBuilder, weights: Array, scales: Array, axis: int | None) -> Value:
    """DequantizeLinear of weights as integers with `scales` in float32, along an `axis` if it is given."""
    spec = required_spec(g)
    zero = 128 if spec.weights == TensorProto.UINT8 else 0
    limit = spec.weight_limit
    kind = helper.tensor_dtype_to_np_dtype(spec.weights)
    divisors = along(scales.astype(np.float64), weights.ndim, axis)
    integers = np.clip(np.rint(weights / divisors), -limit, limit) + zero
    parameters = g.const(integers.astype(kind)), g.const(scales), g.const(np.full(scales.shape, zero, kind))
    return g.DequantizeLinear(*parameters, axis=axis if scales.ndim else None)


def quantized_bias(g: RewriteBuilder, bias: Array, scales: Array) -> Value:
    """DequantizeLinear of a bias as int32, with one scale in float32 or one for each element."""
    integers = g.const(np.rint(bias / scales.astype(np.float64)).astype(np.int32))
    return g.DequantizeLinear(integers, g.const(scales), g.const(np.zeros(scales.shape, np.int32)),
                              axis=0 if scales.ndim else None)  # fmt: skip
