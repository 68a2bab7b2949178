"""Weights of 4 or 8 bits, multiplied with floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ...core import LOSSY, Build, Op, QuantizationSpec, RulePass, Value, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..linear.weighted_products import WeightedProduct, add_bias, left_factor, product_of
from ..support.operand_queries import Array, operand
from .gram_matrices import gram_of
from .parameters import PER_CHANNEL_OPSET, float_weights, quantization_spec
from .weight_rounding import Grid, Rounded, rounded_weights

HALF_OPSET = 19  # of DequantizeLinear to half precision
BLOCK_OPSET = 21  # of DequantizeLinear of 4 bits and in blocks
BLOCKS = (16, 32, 64, 128, 256)  # of MatMulNBits
CHANNEL_BLOCK = 128  # into which a channel is split for MatMulNBits, all with one scale
INT8_ACCURACY = 4  # the accuracy_level of MatMulNBits at which it makes int8 of activations
INTEGER_TYPES = {
    (4, True): TensorProto.INT4,
    (4, False): TensorProto.UINT4,
    (8, True): TensorProto.INT8,
    (8, False): TensorProto.UINT8,
}
CHANNEL_AXES = {"Conv": 0, "ConvTranspose": 1, "GRU": 1, "LSTM": 1, "RNN": 1}


def weight_grid(spec: QuantizationSpec, like: Value) -> Grid:
    """The grid of a weight-only scheme, with scales of the type of `like`."""
    floats = helper.tensor_dtype_to_np_dtype(like.dtype)
    levels = 1 << spec.weight_bits
    if not spec.symmetric:
        return Grid(0, levels - 1, None, spec.block, floats)
    half = levels // 2
    return Grid(-half if spec.weight_bits < 8 else 1 - half, half - 1, 0, spec.block, floats)


@rule(
    lambda g, w, product: g.MatMul(..., g.const(w)) @ product,
    lambda g, w, product: g.Gemm(..., g.const(w), ...) @ product,
    contract=LOSSY,
)
def quantize_weights_of_product(g: Build, w: Value, product: Op) -> Value:
    """MatMul(x, w) + b => MatMul(x, DequantizeLinear(wq, s, z)) + b, or MatMulNBits(x, wq, s, z) + b"""
    spec, p = quantization_spec(g, product.type), product_of(product, shared=True)
    require(product.inputs[1] is w and w.rank == 2, "the weights are not a matrix as the second factor")
    require(w.const.size >= spec.min_weights, f"{w.name} has few weights")
    require(spec.block in (0, *BLOCKS), f"onnxruntime has no kernel for blocks of {spec.block}, but of {BLOCKS}")
    float_weights(w)
    grid = weight_grid(spec, w)
    is_dequantized = may_dequantize(g, spec, w)
    if is_dequantized and g.opset < PER_CHANNEL_OPSET:
        grid = grid._replace(block=-1)
    rounded = rounded_weights(p.weights, grid, spec.rounding, gram_of(spec, p))
    x = left_factor(g, p)
    if not is_dequantized:
        return add_bias(g, p, product_of_bits(g, spec, p, x, rounded))
    axis = None if grid.block < 0 else 0 if grid.block else 1
    return add_bias(g, p, g.MatMul(x, dequantized(g, rounded, integer_type(spec), axis, w, max(grid.block, 0))))


def may_dequantize(g: Build, spec: QuantizationSpec, w: Value) -> bool:
    """Whether onnxruntime fuses a product with a DequantizeLinear of its weights to MatMulNBits.

    It fails at those in bodies with constants from outside, and fuses none that share their integers.
    """
    needed = BLOCK_OPSET if spec.weight_bits < 8 or spec.block else 0
    needed = max(needed, HALF_OPSET if w.dtype == TensorProto.FLOAT16 else 0)
    return g.opset >= needed and len(w.consumers) == 1 and g.graph is g.graph.context.root


def integer_type(spec: QuantizationSpec) -> int:
    """The element type of a weight-only scheme."""
    return INTEGER_TYPES[spec.weight_bits, spec.symmetric]


def dequantized(g: Build, rounded: Rounded, dtype: int, axis: int | None, like: Value, block: int = 0) -> Value:
    """DequantizeLinear of rounded weights, of the type of `like`; `axis` is that of the scales, or of their blocks."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    shape: tuple[int, ...] = () if axis is None else (-1,) if not block else rounded.scales.shape
    is_wide = like.dtype == TensorProto.FLOAT or g.opset < HALF_OPSET
    scales = rounded.scales.reshape(shape).astype(np.float32 if is_wide else np.float16)
    zeros = g.const(rounded.zeros.reshape(shape).astype(kind)) if rounded.zeros.any() else None
    made = g.DequantizeLinear(
        g.const(rounded.integers.astype(kind)), g.const(scales), zeros, axis=axis, block_size=block or None
    )
    return g.Cast(made, to=like.dtype) if is_wide and like.dtype != TensorProto.FLOAT else made


def product_of_bits(g: Build, spec: QuantizationSpec, p: WeightedProduct, x: Value, rounded: Rounded) -> Value:
    """MatMulNBits of com.microsoft: weights and zero points unsigned and packed, (columns, blocks, bytes)."""
    (rows, columns), bits = p.extents, spec.weight_bits
    block = spec.block or CHANNEL_BLOCK
    blocks = -(-rows // block)
    middle = 1 << (bits - 1) if spec.symmetric else 0
    scales, zeros = (np.broadcast_to(a, (blocks, columns)).T for a in (rounded.scales, rounded.zeros))
    padded = np.pad(rounded.integers + middle, ((0, blocks * block - rows), (0, 0)))
    inputs = [g.const(packed(padded.T, bits).reshape(columns, blocks, -1)), g.const(scales, like=p.w)]
    if not spec.symmetric:  # that of others is the middle
        inputs.append(g.const(packed(zeros, bits)))
    sizes = {"K": rows, "N": columns, "bits": bits, "block_size": block}
    return g.domain("com.microsoft").MatMulNBits(x, *inputs, **sizes, accuracy_level=INT8_ACCURACY)


def packed(integers: Array, bits: int) -> Array:
    """Rows of unsigned integers as bytes; of 4 bits, the first of two in the low half."""
    held = integers.astype(np.uint8)
    if bits == 8:
        return held
    held = np.pad(held, ((0, 0), (0, held.shape[1] % 2)))
    return held[:, ::2] | held[:, 1::2] << 4


@rule(lambda g, table, i, gather: g.Gather(g.const(table), i) @ gather, contract=LOSSY)
def quantize_table(g: Build, table: Value, i: Value, gather: Op) -> Value:
    """Gather(table, i) => Cast(Gather(table as int8, i)) * Gather(scales of rows, i)"""
    spec = quantization_spec(g, "Gather")
    require(gather.attr("axis", 0) in (0, -table.rank) and table.rank > 1, f"it takes no rows of {table.name}")
    require(not i.is_const and table.const.size >= spec.min_weights, f"{table.name} is small, or cut once and for all")
    rows = float_weights(table).reshape(len(table.const), -1)
    require(rows.shape[1] > 1, f"the rows of {table.name} are single numbers")
    grid = Grid(-127, 127, 0, 0 if spec.per_channel else -1, helper.tensor_dtype_to_np_dtype(table.dtype))
    rounded = rounded_weights(rows.T, grid, spec.rounding)
    integers = g.Gather(g.const(rounded.integers.T.reshape(table.static_shape).astype(np.int8)), i)
    scales = rounded.scales.reshape(-1, *[1] * (table.rank - 1))
    scale = g.Gather(g.const(scales, like=table), i) if spec.per_channel else g.const(scales.item(), like=table)
    return g.Mul(g.Cast(integers, to=table.dtype), scale)


QUANTIZE_WEIGHTS = RulePass("quantize-weights", (quantize_weights_of_product, quantize_table))
"""Weights of 4 or 8 bits of MatMul and Gemm, and tables of 8 bits of Gather.

A table has no blocks of 4 bits: GatherBlockQuantized took 20 to 50 times as long as Gather, int8 rows less than twice.
"""


@rule(lambda g, op: g.one_of(*CHANNEL_AXES)(...) @ op, contract=LOSSY)
def store_weights(g: Build, op: Op) -> Any:
    """Conv(x, w) => Conv(x, DequantizeLinear(w as int8)); so for ConvTranspose, GRU, LSTM, RNN"""
    spec = quantization_spec(g, op.type)
    inputs = list(op.inputs)
    for index in (1,) if op.type.startswith("Conv") else (1, 2):
        w = operand(op, index)
        if w.is_const and w.const.size >= spec.min_weights and w.dtype in HALF_OR_SINGLE:
            inputs[index] = stored(g, spec, w, CHANNEL_AXES[op.type])
    require(tuple(inputs) != op.inputs, "its weights are few, computed, or stored already")
    return getattr(g, op.type)(*inputs, outputs=len(op.outputs), **op.attrs)


def stored(g: Build, spec: QuantizationSpec, w: Value, axis: int) -> Value:
    """DequantizeLinear of weights as int8, with one scale for each index of an axis."""
    channels = np.moveaxis(float_weights(w), axis, -1)
    per_channel = g.opset >= PER_CHANNEL_OPSET
    rounded = rounded_weights(
        channels.reshape(-1, channels.shape[-1]), Grid(-127, 127, 0, 0 if per_channel else -1), spec.rounding
    )
    back = np.moveaxis(rounded.integers.reshape(channels.shape), -1, axis)
    return dequantized(g, rounded._replace(integers=back), TensorProto.INT8, axis if per_channel else None, w)


STORE_WEIGHTS = RulePass("store-weights", (store_weights,))
"""Weights of 8 bits in the file, of operators for which onnxruntime makes floats of them in each run.

The file shrinks to a quarter, and the model is slower: a Conv ran 0.2 to 0.95 times as fast, a GRU 0.3 to 0.9 times.
"""
