"""Integer arithmetic with ranges of activations computed in each run.

`quantize-dynamic`: Integer arithmetic of MatMul, Gemm and LSTM, with ranges of activations computed in each run.

A range is that of a whole value, all samples of a batch, so that the result for one depends on the others. A NaN among
them becomes a number, and an infinity makes all results NaN.
Not of Conv, whose ConvInteger is as slow as float or slower, nor of GRU: onnxruntime has no GRU of integers, and with
int8 weights behind a DequantizeLinear it ran 0.3 to 0.9 times as fast. `store-int8-weights` shrinks their weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ...core import LOSSY, Op, QuantizationSpec, RewriteBuilder, RulePass, Value, require, rule
from ..linear.products import weighted_product
from ..support.operand_queries import Array
from .static_groups import require_no_logarithm
from .weight_rounding import (
    Grid,
    Rounded,
    float_weights,
    gram_of,
    quantization_spec,
    require_min_weights,
    require_sums_in_int32,
    rounded_weights,
)

MIN_EXTENT = 32  # rows and columns of weights: for fewer, integers were 0.5 to 0.9 times as fast as floats


def integer_weights(weights: Array, spec: QuantizationSpec, *, per_channel: bool, gram: Array | None = None) -> Rounded:
    """Weights, of which columns are output channels, rounded with one zero point for all."""
    zero = 128 if spec.weights == TensorProto.UINT8 else 0
    grid = Grid(zero - spec.weight_limit, zero + spec.weight_limit, zero, 0 if per_channel else -1)
    rounded = rounded_weights(weights, grid, spec.rounding, gram)
    require_sums_in_int32(rounded.integers - zero, (-2,), "the weights")
    return rounded


@rule(
    lambda g, x, w, product: g.MatMul(x, g.const(w)) @ product,
    lambda g, x, w, product: g.Gemm(x, g.const(w), ...) @ product,
    contract=LOSSY,
    group="quantize-dynamic",
)
def quantize_product_dynamically(g: RewriteBuilder, product: Op) -> Value:
    """MatMul(x, w) + b => Cast(MatMulInteger(xq, wq, z)) * (s * sw) + b, with xq, s, z = DynamicQuantizeLinear(x)"""
    spec, p = quantization_spec(g, product.type), weighted_product(product, allow_other_uses=True)
    least = min(p.extents)
    require(least >= MIN_EXTENT, f"{p.b.name} has an extent of {least}, for which integers are slower than floats")
    require_min_weights(spec, p.b)
    float_weights(p.b)
    require_safe_bias(product)
    require_no_logarithm(g, p.a)
    x = p.left_factor(g)
    integers, scale, zero = g.DynamicQuantizeLinear(as_type(g, x, TensorProto.FLOAT))
    per_channel = spec.per_channel and p.b.rank == 2
    rounded = integer_weights(p.weights, spec, per_channel=per_channel, gram=gram_of(spec, p))
    kind = helper.tensor_dtype_to_np_dtype(spec.weights)
    zeros = g.const(rounded.zeros.reshape(-1).astype(kind)) if rounded.zeros.any() else None
    sums = g.MatMulInteger(integers, g.const(rounded.integers.astype(kind)), zero, zeros)
    # onnxruntime fuses these with the scale of x as the first factor, and a bias of one row behind them.
    scales = g.Mul(scale, g.const(rounded.scales.reshape(-1).astype(np.float32)))
    return p.add_bias(g, as_type(g, g.Mul(g.Cast(sums, to=TensorProto.FLOAT), scales), x.dtype))


def require_safe_bias(product: Op) -> None:
    """Decline a constant behind a product that adds dims to it.

    onnxruntime takes any constant of one row, added to fused integers, to be a bias of their columns.
    """
    shape = product.outputs[0].known_shape
    rank = 1 if shape is None else len(shape)
    added = (v for r in product.outputs[0].consumers if r.type == "Add" for v in r.inputs if v is not None)
    require(all(v.rank <= rank for v in added if v.is_const), "a constant behind it may add dims to it")


def as_type(g: RewriteBuilder, v: Value, dtype: int) -> Value:
    """A value cast to an element type if it has another."""
    return v if v.dtype == dtype else g.Cast(v, to=dtype)


@rule(lambda g, x, w, r, lstm: g.LSTM(x, g.const(w), g.const(r), ...) @ lstm, contract=LOSSY, group="quantize-dynamic")
def quantize_lstm_dynamically(g: RewriteBuilder, x: Value, w: Value, r: Value, lstm: Op) -> Any:
    """LSTM(x, w, r, ...) => DynamicQuantizeLSTM(x, w as int8, r as int8, ...)"""
    spec = quantization_spec(g, "LSTM")
    require(lstm.version >= 7, "before opset 7, an attribute says which outputs there are")
    require(not lstm.attr("layout", 0), "onnxruntime runs no LSTM with the batch first")
    require(x.dtype == w.dtype == TensorProto.FLOAT, "onnxruntime has it for single precision alone")
    require_min_weights(spec, w, r)
    # They are inferred here, as nothing infers those of DynamicQuantizeLSTM.
    used = (v for v in lstm.outputs if v.consumers or lstm.graph.is_output(v))
    require(all(v.known_facts[0] for v in used), "the type of an output is unknown")
    parts = [gate_weights(g, v, spec) for v in (w, r)]
    others = [lstm.input(i) for i in range(3, 8)]
    parameters = [v for _, scales, zeros in parts for v in (scales, zeros)]
    attrs = {name: value for name, value in lstm.attrs.items() if name != "layout"}
    inputs: list[Any] = [x, parts[0][0], parts[1][0], *others, *parameters]
    return g.domain("com.microsoft").DynamicQuantizeLSTM(*inputs, outputs=len(lstm.outputs), **attrs)


def gate_weights(g: RewriteBuilder, w: Value, spec: QuantizationSpec) -> tuple[Value, Value, Value]:
    """Weights (directions, 4 * hidden, inputs) as integers (directions, inputs, 4 * hidden), scales and zero points."""
    rounded = [integer_weights(m.T, spec, per_channel=spec.per_channel) for m in float_weights(w)]
    kind = helper.tensor_dtype_to_np_dtype(spec.weights)
    integers, scales, zeros = (np.stack(parts) for parts in zip(*rounded, strict=True))
    shape = (len(rounded), -1) if spec.per_channel else (len(rounded),)
    scale, zero = scales.reshape(shape).astype(np.float32), zeros.reshape(shape).astype(kind)
    return g.const(integers.astype(kind)), g.const(scale), g.const(zero)


QUANTIZE_LSTM = RulePass("quantize-lstm", (quantize_lstm_dynamically,))
"""LSTMs alone, for schemes that compute products with calibrated ranges."""
