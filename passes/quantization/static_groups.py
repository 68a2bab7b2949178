"""Groups of QuantizeLinear, DequantizeLinear and an operator, which onnxruntime computes on integers.

A rule quantizes one operator: its constant operands, its other operands unless they are quantized already, and its
result. Values keep their names, by which the rules find the calibrated ranges. Ops with weights quantize the values
that they read; others are quantized only where the integers of their operands are there.

A rule for another operator that a target computes on integers:

    @rule(lambda g, op: g.Round(...) @ op, contract=LOSSY)
    def quantize_round(g: RewriteBuilder, op: Op) -> Value:
        "Round(x) => Quantized(Round(x)), where x is dequantized"
        x, rounded = operand(op), op.outputs[0]
        require(has_integers(g, x) and not is_quantized(g, op), f"{x.name} is not quantized for another op, or it is")
        return quantized(g, g.Round(quantized(g, x)), of=rounded)

`quantize-static`: Integer arithmetic with calibrated ranges of activations.
`keep-in-float`: Ops in float, protected from onnxruntime's own quantization; after all other passes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from msgspec.structs import replace
from onnx import TensorProto, helper

from ...core import EXACT, LOSSY, Graph, Op, Range, RewriteBuilder, Value, require, rule
from ...core.operators.declaration import Trait
from ...core.operators.table import MOVING, ops_with
from ..arithmetic.clamp_rules import required_clamp
from ..arithmetic.value_ranges import CLAMPS, ValueRange, clamp_of
from ..cleanup.quantization import BYTES, MOVABLE_TYPES, MOVEMENTS
from ..linear.convolution import group_count
from ..linear.products import Product
from ..support.operand_queries import (
    Array,
    has_one_use,
    known,
    known_scalar,
    operand,
    required_producer,
    required_scalar,
    unless_declined,
)
from .weight_rounding import (
    HUGE,
    MAX_BYTE,
    MAX_SUM,
    PER_CHANNEL_OPSET,
    TINY,
    float_weights,
    quantization_spec,
    require_sums_in_int32,
    required_spec,
)

MAX_BIAS = 1 << 30  # as an int32, with a bit to spare for what is added to it
UNBOUNDED = ValueRange()
GATES = ("HardSigmoid", "HardSwish")
lossy_rule = partial(rule, contract=LOSSY, group="quantize-static")
exact_rule = partial(rule, contract=EXACT, group="quantize-static")
JOINS = ("Add", "Mul", "Concat")
WEIGHTED_OPS = ("Conv", "ConvTranspose", "Gemm")
UNARY_OPS = ("Sigmoid", "Softmax", "LeakyRelu", "AveragePool", "GlobalAveragePool")
KNOWN_RANGES = {"Sigmoid": Range(0.0, 1.0), "Softmax": Range(0.0, 1.0)}
CLIP_OPSET = 12  # of Clip of bytes
GEMM_OPSET = 11  # of Gemm without bias
MIN_GATE_STEPS = 16  # of the integers between the bounds of a gate; with fewer, it would be coarse
MIN_STEPS = 16  # of the integers of a sum that an operand spans; with fewer, it would hardly change the sum
LOGARITHMS = ("Log", "ReduceLogSum")
SCALING_OPS = ops_with(Trait.RING) | ops_with(Trait.CONVOLUTION) | MOVING | {
    "Abs", "AveragePool", "BatchNormalization", "Cast", "DFT", "Div", "Gemm", "GlobalAveragePool", "MaxPool", "Mean",
    "Pow", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "STFT", "Sqrt", "Where", *CLAMPS,
}  # fmt: skip
"""Linear operators, powers, clamps, and operators that choose elements: small numbers stay small beside large ones."""
BYTE_MOVEMENTS = ("DepthToSpace", "SpaceToDepth", "MaxPool", "Resize", "Pad")


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
    require_no_logarithm(g, v)
    require(-HUGE <= given.low <= given.high <= HUGE, f"the range of {v.name} is not finite: {given.low}, {given.high}")
    return given


def require_no_logarithm(g: RewriteBuilder, v: Value) -> None:
    """Decline a value of which the logarithm is taken: integers represent its small numbers by 0."""
    *_, model = g.graph.with_enclosing()
    is_read = v in model.analysis(values_in_logarithms)
    require(not is_read, f"integers represent small numbers by 0, and the logarithm of {v.name} is taken")


def values_in_logarithms(graph: Graph) -> set[Value]:
    """The values of which the logarithm is taken, behind SCALING_OPS, except clamps that begin at 0.

    In a logarithm, small numbers count as much as large ones. The spectrograms at the beginning of many audio models
    are such values. Behind a clamp that begins at 0, such as a Relu, 0 is a usual number.
    """
    found = set[Value]()
    waiting = [v for g in graph.with_subgraphs() for op in g.ops(*LOGARITHMS) if not op.domain for v in op.inputs[:1]]
    while waiting:
        v = waiting.pop()
        if v is None or v in found:
            continue
        found.add(v)
        op = v.producer
        clamp = unless_declined(clamp_of, op) if op is not None else None
        begins_at_0 = clamp is not None and clamp[1].low == 0
        if op is not None and not op.domain and not begins_at_0 and op.type in SCALING_OPS:
            waiting += op.inputs
        elif op is not None and op.type == "If":
            waiting += [out for body in op.subgraphs for out in body.outputs]
    return found


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
        return v if maker.graph is g.graph else g.DequantizeLinear(operand(maker), operand(maker, 1), maker.input(2))
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


def constant_weights(w: Value) -> Array:
    """The elements of constant weights of single precision, in float64; declines those that cannot be quantized."""
    require_single(w)
    return float_weights(w)


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
    divisors = scales.astype(np.float64).reshape([-1 if i == axis else 1 for i in range(weights.ndim)])
    integers = np.clip(np.rint(weights / divisors), -limit, limit) + zero
    parameters = g.const(integers.astype(kind)), g.const(scales), g.const(np.full(scales.shape, zero, kind))
    return g.DequantizeLinear(*parameters, axis=axis if scales.ndim else None)


def quantized_bias(g: RewriteBuilder, bias: Array, scales: Array) -> Value:
    """DequantizeLinear of a bias as int32, with one scale in float32 or one for each element."""
    integers = g.const(np.rint(bias / scales.astype(np.float64)).astype(np.int32))
    return g.DequantizeLinear(integers, g.const(scales), g.const(np.zeros(scales.shape, np.int32)),
                              axis=0 if scales.ndim else None)  # fmt: skip


def dequantized_parts(g: RewriteBuilder, v: Value) -> tuple[Value, Value, Value]:
    """The integers of a dequantized value, which vary, their scale and zero point; declines any other value."""
    maker = known(dequantizer(g, v), f"{v.name} is not dequantized")
    require(not operand(maker).is_const, f"{v.name} is constant")
    return operand(maker), operand(maker, 1), operand(maker, 2)


def group_output(op: Op, clamp: Op | None) -> tuple[Value, ValueRange]:
    """The value that an op computes for a group, behind its clamp if there is one, and the bounds of that.

    Declines an op that is quantized together with the clamp that reads it.
    """
    out = op.outputs[0]
    if clamp is not None:
        bounds = required_clamp(clamp)[1]
        require(bounds.low <= 0 <= bounds.high, "0 is not within the bounds")
        return clamp.outputs[0], bounds
    readers = list(out.consumers)
    is_clamped = len(readers) == 1 and not op.graph.is_output(out) and readers[0].type in CLAMPS
    require(not is_clamped or unless_declined(group_output, op, readers[0]) is None, "its clamp is quantized with it")
    return out, UNBOUNDED


def quantized_operands(g: RewriteBuilder, x: Value, w: Array, axis: int | None, bias: Array | None) -> list[Value]:
    """A value, weights and a bias, quantized for one op.

    The weights have one scale for each index of `axis`, the output channels; one for all if it is None, or where the
    spec or the opset wants that.
    """
    spec = required_spec(g)
    varying, channels = quantized(g, x), axis
    axis = axis if spec.per_channel and g.opset >= PER_CHANNEL_OPSET else None
    x_scale = scale_of(varying)
    scales = usable_scales(weight_scales(w, spec.weight_limit, axis), x_scale, bias)
    summed = (max(w.ndim - 2, 0),) if channels is None else tuple(i for i in range(w.ndim) if i != channels)
    divisors = scales.reshape([-1 if i == axis else 1 for i in range(w.ndim)])
    require_sums_in_int32(w / divisors, summed, f"the weights for {x.name}")
    weights = quantized_weight(g, w, scales, axis)
    return [varying, weights] if bias is None else [varying, weights, quantized_bias(g, bias, x_scale * scales)]


def product_output(g: RewriteBuilder, made: Value, op: Op, clamp: Op | None) -> Value:
    """The result of a product of integers: of floats, as onnxruntime can give it, unless a clamp is behind.

    `quantize_product_output` quantizes it where others want integers.
    """
    of, bounds = group_output(op, clamp)
    return made if clamp is None else quantized(g, made, of, bounds)


@lossy_rule(
    lambda g, w, conv, clamp: g.one_of(*CLAMPS)(g.Conv(..., g.const(w), ...) @ conv, ...) @ clamp,
    lambda g, w, conv: g.Conv(..., g.const(w), ...) @ conv,
)
def quantize_conv(g: RewriteBuilder, conv: Op, clamp: Op | None = None) -> Value:
    """Conv(x, w, b) => Quantized(Conv(Quantized(x), w as int8, b as int32)); so with a Relu or Clip behind it"""
    spec = quantization_spec(g, "Conv")
    (of, bounds), w, b = group_output(conv, clamp), operand(conv, 1), conv.input(2)
    require_no_logarithm(g, of)  # before anything is built, after which the values are searched again
    is_image = group_count(conv, w) == 1 and w.rank > 3
    require(not is_image or w.static_shape[1] >= spec.min_channels, "its input has few channels: faster in float")
    bias = None if b is None else constant_bias(b)
    operands = quantized_operands(g, operand(conv), constant_weights(w), 0, bias)
    return quantized(g, g.Conv(*operands, **conv.attrs), of, bounds)


@lossy_rule(
    lambda g, w, product, b, add, clamp: (
        g.one_of(*CLAMPS)(g.Add(g.MatMul(..., g.const(w)) @ product, g.const(b)) @ add, ...) @ clamp
    ),
    lambda g, w, product, b, add: g.Add(g.MatMul(..., g.const(w)) @ product, g.const(b)) @ add,
)
def quantize_biased_matmul(
    g: RewriteBuilder, w: Value, product: Op, b: Value, add: Op, clamp: Op | None = None
) -> Value:
    """Add(MatMul(x, w), b) => Add(MatMul(Quantized(x), w as int8), b as int32); quantized with a Relu or Clip behind

    Of matrices it is a Gemm. Of others onnxruntime makes one QGemm where it knows the shape.
    """
    quantization_spec(g, "MatMul")
    require(product.inputs[1] is w, "the weights are the first factor")
    require(added_bias(product) is add, "another op reads the product")
    operands = quantized_operands(g, operand(product), constant_weights(w), matmul_axis(w), constant_bias(b))
    return product_output(g, matrix_product(g, product, *operands), add, clamp)


@lossy_rule(
    lambda g, w, product, clamp: g.one_of(*CLAMPS)(g.MatMul(..., g.const(w)) @ product, ...) @ clamp,
    lambda g, w, product: g.MatMul(..., g.const(w)) @ product,
)
def quantize_matmul(g: RewriteBuilder, w: Value, product: Op, clamp: Op | None = None) -> Value:
    """MatMul(x, w) => MatMul(Quantized(x), w as int8); quantized with a Relu or Clip behind it"""
    quantization_spec(g, "MatMul")
    require(product.inputs[1] is w, "the weights are the first factor")
    require(clamp is not None or added_bias(product) is None, "the bias is added to integers")
    operands = quantized_operands(g, operand(product), constant_weights(w), matmul_axis(w), None)
    return product_output(g, matrix_product(g, product, *operands), product, clamp)


def matrix_product(g: RewriteBuilder, product: Op, x: Value, y: Value, bias: Value | None = None) -> Value:
    """The product of dequantized values in place of a MatMul: a Gemm of matrices.

    onnxruntime makes a Gemm of MatMul and Add, even of floats that are added, which would then compute in float.
    """
    ranks = [v.known_shape is not None and len(v.known_shape) for v in product.inputs if v is not None]
    if ranks == [2, 2] and (bias is not None or g.opset >= GEMM_OPSET):
        return g.Gemm(x, y, bias)
    return g.MatMul(x, y) if bias is None else g.Add(g.MatMul(x, y), bias)


def matmul_axis(w: Value) -> int | None:
    """The axis of the weights of a MatMul along which scales may differ."""
    return 1 if w.rank == 2 else None


def added_bias(product: Op) -> Op | None:
    """The Add that alone reads a MatMul, of one constant number for each column of its weights; None for others."""
    out = product.outputs[0]
    add = next(iter(out.consumers), None)
    if add is None or len(out.consumers) > 1 or add.type != "Add" or add.domain or product.graph.is_output(out):
        return None
    w = operand(product, 1)
    columns = w.static_shape[-1]
    rows = ((columns,), (1, columns)) if out.rank > 1 else ((columns,),)
    is_biased = any(v is not None and v.is_const and v.static_shape in rows for v in add.inputs)
    return add if is_biased and w.rank == 2 else None


@lossy_rule(
    lambda g, w, gemm, clamp: g.one_of(*CLAMPS)(g.Gemm(..., g.const(w), ...) @ gemm, ...) @ clamp,
    lambda g, w, gemm: g.Gemm(..., g.const(w), ...) @ gemm,
)
def quantize_gemm(g: RewriteBuilder, gemm: Op, clamp: Op | None = None) -> Value:
    """Gemm(x, w, b) => Gemm(Quantized(x), w as int8, b as int32); quantized with a Relu or Clip behind it"""
    quantization_spec(g, "Gemm")
    p = Product.of(gemm)
    weights, axis = constant_weights(p.b) * p.alpha, 0 if p.trans_b else 1
    bias = None if p.c is None else np.broadcast_to(constant_bias(p.c) * p.beta, weights.shape[axis])
    operands = quantized_operands(g, p.a, weights, axis, bias)
    return product_output(g, g.Gemm(*operands, **replace(p, alpha=1.0, beta=1.0).attrs), gemm, clamp)


@lossy_rule(
    lambda g, product, clamp: g.one_of(*CLAMPS)(g.MatMul(...) @ product, ...) @ clamp,
    lambda g, product: g.MatMul(...) @ product,
)
def quantize_product(g: RewriteBuilder, product: Op, clamp: Op | None = None) -> Value:
    """MatMul(x, y) => MatMul(Quantized(x), Quantized(y)); quantized with a Relu or Clip behind it"""
    quantization_spec(g, "MatMul")
    x, y = operand(product), operand(product, 1)
    require(not y.is_const, "the second factor has weights")
    require(not (is_dequantized(g, x) and is_dequantized(g, y)), "it is quantized")
    terms = y.known_shape[-2] if y.known_shape is not None and y.rank > 1 else 0
    fits = not isinstance(terms, int) or MAX_BYTE**2 * terms <= MAX_SUM
    require(fits, f"sums of {terms} products of two integers may exceed 32 bits")
    factors = [quantized_constant(g, v) if v.is_const else quantized(g, v) for v in (x, y)]
    return product_output(g, matrix_product(g, product, *factors), product, clamp)


@lossy_rule(lambda g, product: g.one_of("MatMul", "Gemm", "Add")(...) @ product)
def quantize_product_output(g: RewriteBuilder, product: Op) -> Value:
    """MatMul(x, y) => Quantized(MatMul(x, y)), where x and y are dequantized and only some readers want integers

    onnxruntime computes a product on integers if all its readers quantize it, or none, and a clamp is not the only one.
    """
    require(is_integer_product(product), "it is not computed on integers")
    out = product.outputs[0]
    readers = [r.type for r in out.consumers]
    others = [t for t in readers if t != "QuantizeLinear"] + ["output"] * product.graph.is_output(out)
    is_mixed = bool(others) and "QuantizeLinear" in readers
    require(is_mixed or others in (["Relu"], ["Clip"]), "its readers want the same")
    return quantized(g, getattr(g, product.type)(*product.inputs, **product.attrs), out)


def is_integer_product(op: Op) -> bool:
    """Whether an op is a product of dequantized factors, or adds a dequantized bias to one."""
    makers = [v.producer for v in op.inputs if v is not None]
    products = [m for m in makers if m is not None and m.type == "MatMul"] if op.type == "Add" else []
    makers += [v.producer for product in products for v in product.inputs if v is not None]
    read = {None if m is None else m.type for m in makers if m not in products}
    return read == {"DequantizeLinear"} and len(products) == (op.type == "Add")


@rule(lambda g, op, c: g.one_of("Mul", "Div")(..., g.const(c)) @ op, group="quantize-static")
def scale_dequantization(g: RewriteBuilder, op: Op, c: Value) -> Value:
    """Mul(DequantizeLinear(x, s, z), c) => DequantizeLinear(x, s * c, z), for one positive number c; so Div"""
    scaled = next(v for v in op.inputs if v is not None and v is not c)
    x, scale, zero = dequantized_parts(g, scaled)
    factor = float(required_scalar(c))
    require(scaled.rank >= c.rank and (op.type == "Mul" or operand(op, 1) is c), f"{c.name} adds dims, or is divided")
    new = float(required_scalar(scale)) * (factor if op.type == "Mul" else 1 / factor if factor else 0.0)
    require(TINY <= new <= HUGE, "its scale would not be positive and finite")
    return g.DequantizeLinear(x, g.const(np.float32(new)), zero)


@lossy_rule(
    lambda g, op, clamp: g.one_of(*CLAMPS)(g.one_of(*JOINS)(...) @ op, ...) @ clamp,
    lambda g, op: g.one_of(*JOINS)(...) @ op,
)
def quantize_join(g: RewriteBuilder, op: Op, clamp: Op | None = None) -> Value:
    """Add(x, y) => Quantized(Add(x, y)), where x and y are dequantized or constant; so for Mul, Concat"""
    quantization_spec(g, op.type)
    of, bounds = group_output(op, clamp)
    inputs = [operand(op, i) for i in range(len(op.inputs))]
    varying = [v for v in inputs if not v.is_const]
    require(bool(varying) and all(has_integers(g, v) for v in varying), "an operand is not quantized for another op")
    require(not is_quantized(g, op), "it is quantized")
    parts = [quantized_constant(g, v) if v.is_const else quantized(g, v) for v in inputs]
    result = quantized(g, getattr(g, op.type)(*parts, **op.attrs), of, bounds)
    least, greatest = integer_limits(required_spec(g).activations)
    for v, part in zip(inputs, parts, strict=True) if op.type != "Mul" else ():
        steps = scale_of(part) * (greatest - least) / scale_of(result)
        require(v.is_const or steps >= MIN_STEPS, f"{v.name} spans {steps:.2g} of the integers of the result")
    return result


@lossy_rule(
    lambda g, op, clamp: g.one_of(*CLAMPS)(g.one_of(*UNARY_OPS)(...) @ op, ...) @ clamp,
    lambda g, op: g.one_of(*UNARY_OPS)(...) @ op,
)
def quantize_unary(g: RewriteBuilder, op: Op, clamp: Op | None = None) -> Value:
    """Sigmoid(x) => Quantized(Sigmoid(x)), where x is dequantized; so for Softmax, LeakyRelu and average pools"""
    quantization_spec(g, op.type)
    of, bounds = group_output(op, clamp)
    require(has_integers(g, operand(op)), "the operand is not quantized for another op")
    require(not is_quantized(g, op), "it is quantized")
    made = getattr(g, op.type)(quantized(g, operand(op)), **op.attrs)
    given = KNOWN_RANGES.get(op.type) if clamp is None else None
    if given is None:
        return quantized(g, made, of, bounds)
    require_no_logarithm(g, of)
    return with_parameters(g, made, given, of)


def integer_gate(g: RewriteBuilder, op: Op) -> Value:
    """The HardSigmoid of dequantized integers, the one of a HardSwish: integers, clamped and with another scale.

    HardSigmoid is a clamp of a * x + b to 0..1. Of dequantized integers, a * x + b is the same integers with another
    scale and zero point, so that only the clamp is left; HardSwish is the product of that and x. onnxruntime has no
    kernel of its own for either: both took the time of conversions to floats and back.
    """
    x = operand(op)
    require_no_logarithm(g, op.outputs[0])
    bounds = known(linear_range(op), "its slope or offset is none of a clamped line from 0 to 1")
    integers, of_scale, zero = dequantized_parts(g, x)
    scale = float(required_scalar(of_scale))
    least, greatest = integer_limits(required_spec(g).activations)
    start, end = (round(float(required_scalar(zero)) + bound / scale) for bound in bounds)
    require(start >= least, f"the integers of {x.name} begin above {bounds.low:.3g}")
    require(end - start >= MIN_GATE_STEPS, f"the integers of {x.name} are coarse: {end - start} from 0 to 1")
    kind = helper.tensor_dtype_to_np_dtype(required_spec(g).activations)
    low = g.const(np.array(start, kind)) if start > least else None
    high = g.const(np.array(end, kind)) if end < greatest else None
    if low is not None or high is not None:
        require(g.opset >= CLIP_OPSET, "there is no Clip of bytes")
        integers = g.Clip(integers, low, high)
    slope = np.float32(scale * gate_slope(op))
    return g.DequantizeLinear(integers, g.const(slope), g.const(np.array(start, kind)))


@lossy_rule(lambda g, op: g.HardSigmoid(...) @ op)
def quantize_hard_sigmoid(g: RewriteBuilder, op: Op) -> Value:
    """HardSigmoid(DequantizeLinear(x, s, z)) => DequantizeLinear(Clip(x), s * alpha, z - beta / alpha / s)"""
    quantization_spec(g, op.type)
    return integer_gate(g, op)


@lossy_rule(lambda g, x, op: g.HardSwish(x) @ op)
def quantize_hard_swish(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """HardSwish(x) => Quantized(x * HardSigmoid(x)), where x is dequantized"""
    quantization_spec(g, op.type)
    gate = integer_gate(g, op)
    return quantized(g, g.Mul(quantized(g, x), gate), op.outputs[0])


@exact_rule(lambda g, op: g.one_of(*MOVEMENTS, *BYTE_MOVEMENTS[2:])(...) @ op)
def move_dequantization(g: RewriteBuilder, op: Op) -> Value:
    """Transpose(DequantizeLinear(x, s, z)) => DequantizeLinear(Transpose(x), s, z), so other movements, MaxPool, Pad

    So for a Resize that repeats elements.
    """
    x, scale, zero = dequantized_parts(g, operand(op))
    require(x.dtype in (BYTES if op.type in BYTE_MOVEMENTS else MOVABLE_TYPES), f"onnxruntime has no {op.type} of it")
    others = list(op.inputs[1:])
    if op.type == "Pad":
        others[1:2] = [padding_of_zeros(g, op, zero)]
    require(op.type != "MaxPool" or (op.version >= 12 and len(op.outputs) == 1), "it is not a MaxPool of bytes alone")
    is_copy = op.type != "Resize" or (
        op.attr("mode", "nearest") == "nearest"
        and op.attr("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize"
    )
    require(is_copy, "it computes other numbers")
    return g.DequantizeLinear(getattr(g, op.type)(x, *others, **op.attrs), scale, zero)


def padding_of_zeros(g: RewriteBuilder, pad: Op, zero: Value) -> Value | None:
    """The number with which integers are padded in place of 0; declines other numbers."""
    require(pad.version >= 11, "onnxruntime has no Pad of bytes at this opset")
    if pad.attr("mode", "constant") != "constant":
        return None
    require(pad.input(2) is None or known_scalar(pad.input(2)) == 0, "it is not padded with zeros")
    return g.const(zero.const.reshape(()))


@exact_rule(lambda g, split: g.Split(...) @ split)
def split_dequantization(g: RewriteBuilder, split: Op) -> tuple[Value, ...]:
    """Split(DequantizeLinear(x, s, z)) => DequantizeLinear(part of Split(x), s, z) for each part"""
    x, scale, zero = dequantized_parts(g, operand(split))
    require(len(split.outputs) > 1, "it is one part")
    parts = g.Split(x, *split.inputs[1:], outputs=len(split.outputs), **split.attrs)
    return tuple(g.DequantizeLinear(part, scale, zero) for part in parts)


@exact_rule(lambda g, relu: g.Relu(...) @ relu)
def clamp_integers(g: RewriteBuilder, relu: Op) -> Value:
    """Relu(DequantizeLinear(x, s, z)) => DequantizeLinear(Clip(x, z), s, z)"""
    x, scale, zero = dequantized_parts(g, operand(relu))
    require(g.opset >= CLIP_OPSET, "there is no Clip of bytes")
    return g.DequantizeLinear(g.Clip(x, g.const(zero.const.reshape(()))), scale, zero)


@rule(
    lambda g, v, outer: g.QuantizeLinear(v, ...) @ outer, allow_other_uses=True, contract=EXACT, group="keep-in-float"
)
def keep_in_float(g: RewriteBuilder, v: Value, outer: Op) -> Value:
    """QuantizeLinear(Conv(DequantizeLinear(x), w)) => QuantizeLinear(Max(Conv(DequantizeLinear(x), w)))

    onnxruntime rounds the weights of a Conv, ConvTranspose or Gemm to 8 bits, with one scale for all, if it is between
    such ops, even if there is a clamp as well. The Max of one value is a copy. So for other ops that onnxruntime would
    compute on integers although the target does not want it.
    """
    inner = v
    while inner.producer is not None and inner.producer.type in {"Relu", "Clip"} and has_one_use(inner):
        inner = operand(inner.producer)
    op = required_producer(inner, *WEIGHTED_OPS, *JOINS, *UNARY_OPS, "Where")
    require(has_one_use(inner), "another op reads the floats")
    required_producer(operand(op, 1 if op.type == "Where" else 0), "DequantizeLinear")
    is_wanted = operand(op, 1).is_const if op.type in WEIGHTED_OPS else op.type not in required_spec(g).operators
    require(is_wanted, "the weights are quantized, or the target computes it on integers")
    return g.QuantizeLinear(g.Max(v), operand(outer, 1), outer.input(2), **outer.attrs)


@rule(
    lambda g, pool, outer: g.QuantizeLinear(g.MaxPool(...) @ pool, ...) @ outer,
    allow_other_uses=True, contract=EXACT, group="keep-in-float",
)  # fmt: skip
def keep_pool_in_float(g: RewriteBuilder, pool: Op, outer: Op) -> Value:
    """QuantizeLinear(MaxPool(x)) => QuantizeLinear(Max(MaxPool(x)))

    onnxruntime quantizes before a MaxPool of floats, whose kernel for bytes takes ten times as long if nothing before
    it is computed on integers. The Max of one value is a copy.
    """
    v, maker = pool.outputs[0], operand(pool).producer
    require(maker is None or maker.type != "DequantizeLinear", "it is computed on integers")
    return g.QuantizeLinear(g.Max(v), operand(outer, 1), outer.input(2), **outer.attrs)
