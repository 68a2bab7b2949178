"""Weights of 4 or 8 bits, multiplied with floats.

`quantize-weights`: Weights of 4 or 8 bits of MatMul and Gemm, and such tables of Gather.

onnxruntime makes MatMulNBits of a DequantizeLinear and a product, too, but not of one with a residual added, nor where
products share their integers, nor in bodies; OpenVINO takes as long for either form (0.9 to 1.1).

A table has the form of the weights of MatMulNBits, so that one that is the matrix of a product, too, is in the file
once. A row of 512 took 7.5 us, in float 3.7, by GatherBlockQuantized, which is no standard operator, 4.0, and behind a
DequantizeLinear 21 ms, as onnxruntime makes floats of the whole table in each run.

`store-int8-weights`: Weights of 8 bits in the file, tables too, of which onnxruntime makes floats when it loads the
model.

Speed and memory stay those of floats. It folds no DequantizeLinear, with which a Conv ran 0.2 to 0.95 times as fast, a
GRU 0.3 to 0.9 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha1
from math import prod
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from onnx import TensorProto, helper

from ...core import LOSSY, Op, QuantizationSpec, RewriteBuilder, RulePass, Value, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..support.operand_queries import Array, operand
from .weight_rounding import (
    HUGE,
    Grid,
    Rounded,
    float_weights,
    gram_of,
    product_of_constant,
    quantization_spec,
    require_min_weights,
    required_spec,
    rounded_weights,
)

BLOCKS = (16, 32, 64, 128, 256)  # of MatMulNBits
CHANNEL_BLOCKS = (128, 64)  # into which a channel is split for MatMulNBits, all with one scale; others are slower
SLOW_ROUNDING = {"gptq", "hqq"}
INT8_ACCURACY = 4  # the accuracy_level of MatMulNBits at which it makes int8 of activations
STORED_BLOCK = 64  # weights at most that share a scale if stored: 2 % more bytes, and their noise is 2 to 8 dB less
FEW_INPUTS = 1 / 7  # of the weights of a recurrent op: those of its inputs stay as they are if they are fewer
STORING_BYTES = 400  # about, of the ops, names and tensors that weights stored in int8 need
RECURRENT_OPS = ("GRU", "LSTM", "RNN")
CHANNEL_AXES = {"Conv": 0, "ConvTranspose": 1, "MatMul": -1, "Gemm": 1, **dict.fromkeys(RECURRENT_OPS, 1)}
"""The axis of the output channels of weights, by operator; of a Gemm of transposed weights it is 0."""


def spec_of_weights(g: RewriteBuilder, operator: str, w: Value) -> QuantizationSpec:
    """As `quantization_spec`, with the bits of some weights."""
    spec = quantization_spec(g, operator)
    return replace(spec, weight_bits=8) if w.name in spec.wide else spec


def weight_grid(spec: QuantizationSpec, like: Value) -> Grid:
    """The grid of a weight-only scheme, with scales of the type of `like`."""
    floats = helper.tensor_dtype_to_np_dtype(like.dtype)
    levels = 1 << spec.weight_bits
    if not spec.symmetric:
        return Grid(0, levels - 1, None, spec.block, floats)
    half = levels // 2
    return Grid(-half if spec.weight_bits < 8 else 1 - half, half - 1, 0, spec.block, floats)


@rule(
    lambda g, x, w, product: g.MatMul(x, g.const(w)) @ product,
    lambda g, x, w, product: g.Gemm(x, g.const(w), ...) @ product,
    lambda g, x, w, product, p: g.MatMul(x, g.Transpose(g.const(w), perm=p)) @ product,
    contract=LOSSY,
    group="quantize-weights",
)
def quantize_weights_of_product(g: RewriteBuilder, w: Value, product: Op) -> Value:
    """MatMul(x, w) + b => MatMulNBits(x, wq, s, z) + b; for each matrix of a batch of weights, as for experts"""
    p, spec = product_of_constant(product), spec_of_weights(g, product.type, w)
    (rows, columns), count = p.extents, prod(w.static_shape[:-2])
    require_min_weights(spec, w, matrices=count)
    block_rows(spec, rows)
    float_weights(w)
    x = p.left_factor(g)
    parts = parts_of_batch(g, x, w, count)
    gram = gram_of(spec, p) if w.rank == 2 else None
    grid = weight_grid(spec, w)
    rounded = [remembered(spec, m, grid, gram) for m in p.weights.reshape(count, rows, columns)]
    largest = max(float(r.scales.max()) for r in rounded) * (rows << spec.weight_bits)  # of sums of unsigned integers
    require(largest <= HUGE, f"{w.name} has weights so large that sums of their integers overflow")
    products = [product_of_bits(g, spec, part, r, w) for part, r in zip(parts, rounded, strict=True)]
    return p.add_bias(g, products[0] if count == 1 else g.Concat(*products, axis=x.rank - 3))


def remembered(spec: QuantizationSpec, weights: Array, grid: Grid, gram: Array | None) -> Rounded:
    """Weights rounded as the spec says, found once for all candidates of a spec if that takes long."""
    if spec.rounding not in SLOW_ROUNDING:
        return rounded_weights(weights, grid, spec.rounding)
    known = (np.ascontiguousarray(a).data for a in (weights, gram) if a is not None)
    key = (*(sha1(data, usedforsecurity=False).digest() for data in known), weights.shape, grid, spec.rounding)
    if key not in spec.remembered:
        found = rounded_weights(weights, grid, spec.rounding, gram)
        spec.remembered[key] = found._replace(integers=found.integers.astype(np.int16))
    return spec.remembered[key]


def parts_of_batch(g: RewriteBuilder, x: Value, w: Value, count: int) -> Sequence[Value]:
    """The parts of a factor for each of so many matrices of weights; itself for one.

    The rank of a factor behind another MatMulNBits may be unknown, which a single matrix does not need.
    """
    if w.rank == 2:
        return [x]
    require(x.rank >= w.rank, f"{w.name} has axes that its factor lacks")
    if count == 1:
        return [x]
    require(w.rank == 3 and x.shape[-3] == count, f"{w.name} has not one matrix for each of the factor")
    return g.Split(x, [1] * count, axis=x.rank - 3, outputs=count)


def product_of_bits(g: RewriteBuilder, spec: QuantizationSpec, x: Value, rounded: Rounded, like: Value) -> Value:
    """MatMulNBits of com.microsoft, with scales of the type of `like`."""
    matrix, (rows, columns) = packed_matrix(g, spec, rounded, like), rounded.integers.shape
    sizes = {"K": rows, "N": columns, "bits": spec.weight_bits, "block_size": block_rows(spec, rows)}
    inputs = [v for v in matrix if v is not None]
    return g.domain("com.microsoft").MatMulNBits(x, *inputs, **sizes, accuracy_level=INT8_ACCURACY)


def block_rows(spec: QuantizationSpec, rows: int) -> int:
    """The rows of a block of MatMulNBits; declines blocks for which it has no kernel."""
    require(spec.block in (0, *BLOCKS), f"onnxruntime has no kernel for blocks of {spec.block}, but of {BLOCKS}")
    bits = spec.weight_bits
    return spec.block or min(CHANNEL_BLOCKS, key=lambda n: -(-rows // n) * (n * bits + 32))  # of weights and a scale


class PackedMatrix(NamedTuple):
    """Weights as MatMulNBits takes them.

    Unsigned `integers` in bytes (columns, blocks, bytes), `scales` (columns, blocks), and packed zero points `zeros`;
    without these, they are in the middle.
    """

    integers: Value
    scales: Value
    zeros: Value | None


def packed_matrix(g: RewriteBuilder, spec: QuantizationSpec, rounded: Rounded, like: Value) -> PackedMatrix:
    """Rounded weights (rows, columns), with scales of the type of `like`."""
    (rows, columns), bits = rounded.integers.shape, spec.weight_bits
    block = block_rows(spec, rows)
    blocks = -(-rows // block)
    middle = 1 << (bits - 1) if spec.symmetric else 0
    scales, zeros = (np.broadcast_to(a, (blocks, columns)).T for a in (rounded.scales, rounded.zeros))
    padded = np.pad(rounded.integers + middle, ((0, blocks * block - rows), (0, 0)))
    integers = g.const(packed(padded.T, bits).reshape(columns, blocks, -1))
    return PackedMatrix(integers, g.const(scales, like=like), None if spec.symmetric else g.const(packed(zeros, bits)))


def packed(integers: Array, bits: int) -> Array:
    """Rows of unsigned integers as bytes; of 4 bits, the first of two in the low half."""
    held = integers.astype(np.uint8)
    if bits == 8:
        return held
    held = np.pad(held, ((0, 0), (0, held.shape[1] % 2)))
    return held[:, ::2] | held[:, 1::2] << 4


@rule(lambda g, table, i, gather: g.Gather(g.const(table), i) @ gather, contract=LOSSY, group="quantize-weights")
def pack_table(g: RewriteBuilder, table: Value, i: Value, gather: Op) -> Value:
    """Gather(table, i) => (Unpack(Gather(packed, i)) - z) * Gather(scales, i)"""
    spec, rows = spec_of_weights(g, "Gather", table), table_rows(g, table, i, gather)
    width, bits = rows.shape[1], spec.weight_bits
    block = block_rows(spec, width)
    require(bits < 8 or width % block == 0, f"rows of {width} would be padded to blocks of {block}")
    gram = spec.grams.get(table.name)
    grid = weight_grid(spec, table)
    rounded = remembered(spec, rows.T, grid, gram)
    matrix = packed_matrix(g, spec, rounded, table)
    blocks, kept = -(-width // block), [0] * i.rank  # of the dims of the indices
    integers = unpacked(g, g.Gather(matrix.integers, i), bits, [*kept, blocks, block], table)
    zeros = g.const(1 << (bits - 1), like=table)
    if matrix.zeros is not None:
        held = blocks + blocks % (8 // bits)  # zero points of a row, with that which fills its last byte
        zeros = unpacked(g, g.Gather(matrix.zeros, i), bits, [*kept, held], table)
        zeros = g.Unsqueeze(zeros if held == blocks else g.Slice(zeros, [0], [blocks], [-1]), [-1])
    scaled = g.Mul(g.Sub(integers, zeros), g.Unsqueeze(g.Gather(matrix.scales, i), [-1]))
    if blocks * block > width:
        scaled = g.Slice(g.Reshape(scaled, [*kept, blocks * block]), [0], [width], [-1])
    return g.Reshape(scaled, [*kept, *table.static_shape[1:]])


def is_scale(gathered: Value) -> bool:
    """Whether integers are multiplied with it, as by `pack_table`."""
    factors = (v for r in gathered.consumers for q in r.outputs[0].consumers if q.type == "Mul" for v in q.inputs)
    makers = (v.producer for v in factors if v is not None)
    casts = (p.inputs[0].producer for p in makers if p is not None and p.type == "Sub" and p.inputs[0] is not None)
    return any(c is not None and c.type == "Cast" and operand(c).known_dtype == TensorProto.UINT8 for c in casts)


def unpacked(g: RewriteBuilder, data: Value, bits: int, dims: list[int], like: Value) -> Value:
    """Integers of bytes in which they are `packed`, in the shape `dims`, as numbers of the type of `like`."""
    if bits < 8:
        four = np.array(4, np.uint8)
        low = g.BitShift(g.BitShift(data, four, direction="LEFT"), four, direction="RIGHT")
        halves = (g.Unsqueeze(v, [-1]) for v in (low, g.BitShift(data, four, direction="RIGHT")))
        data = g.Reshape(g.Concat(*halves, axis=-1), dims)
    return g.Cast(data, to=like.dtype)


def table_rows(g: RewriteBuilder, table: Value, i: Value, gather: Op) -> Array:
    """The rows of a table, flat, in float64; declines a Gather that takes no rows, known ones, or of few weights."""
    spec = quantization_spec(g, "Gather")
    require(gather.attr("axis", 0) in (0, -table.rank) and table.rank > 1, f"it takes no rows of {table.name}")
    require(not i.is_const, "its rows are known")
    require(not is_scale(gather.outputs[0]), f"{table.name} are scales")
    require_min_weights(spec, table)
    rows = float_weights(table).reshape(len(table.const), -1)
    require(rows.shape[1] > 1, f"the rows of {table.name} are single numbers")
    return rows


@rule(lambda g, table, i, gather: g.Gather(g.const(table), i) @ gather, contract=LOSSY, group="quantize-weights")
def quantize_table(g: RewriteBuilder, table: Value, i: Value, gather: Op) -> Value:
    """Gather(table, i) => Cast(Gather(table as int8, i)) * Gather(scales of rows, i)"""
    spec, rows = quantization_spec(g, "Gather"), table_rows(g, table, i, gather)
    grid = Grid(-127, 127, 0, 0 if spec.per_channel else -1, helper.tensor_dtype_to_np_dtype(table.dtype))
    rounded = rounded_weights(rows.T, grid, spec.rounding)
    integers = g.Gather(g.const(rounded.integers.T.reshape(table.static_shape).astype(np.int8)), i)
    scales = rounded.scales.reshape(-1, *[1] * (table.rank - 1))
    scale = g.Gather(g.const(scales, like=table), i) if spec.per_channel else g.const(scales.item(), like=table)
    return g.Mul(g.Cast(integers, to=table.dtype), scale)


QUANTIZE_TABLES = RulePass("quantize-tables", (quantize_table,))
"""Tables of 8 bits of Gather alone, for schemes that compute products on integers."""


@rule(lambda g, op: g.one_of(*CHANNEL_AXES)(...) @ op, contract=LOSSY, group="store-int8-weights")
def store_int8_weights(g: RewriteBuilder, op: Op) -> Any:
    """Conv(x, w) => Conv(x, Reshape(Cast(w as int8) * s)); so for ConvTranspose, MatMul, Gemm, GRU, LSTM, RNN

    Few inputs of a recurrent op, as features of sounds, are of unlike sizes, and their errors last over all steps: with
    3 % of the weights of an encoder of voices in 8 bits, it had 13.8 dB of signal to noise, without them 26.
    """
    spec = required_spec(g)
    inputs = list(op.inputs)
    for index in stored_places(op):
        w = operand(op, index)
        if w.is_const and w.rank > 1 and w.dtype in HALF_OR_SINGLE:
            axis = stored_axis(op) % w.rank
            if saved_bytes(w, axis) > 0:
                inputs[index] = stored(g, spec, w, axis)
    require(tuple(inputs) != op.inputs, "its weights are few, computed, or stored already")
    return getattr(g, op.type)(*inputs, outputs=len(op.outputs), **op.attrs)


def stored_axis(op: Op) -> int:
    """The axis of the weights of an op along which they have a scale for each index."""
    return 0 if op.type == "Gemm" and op.attr("transB", 0) else CHANNEL_AXES[op.type]


def stored_places(op: Op) -> Sequence[int]:
    """The places of the weights that are stored as integers, without few input weights of a recurrent op."""
    if op.type not in RECURRENT_OPS:
        return (1,)
    inputs, states = (prod(operand(op, i).static_shape) for i in (1, 2))
    return (2,) if inputs < FEW_INPUTS * (inputs + states) else (1, 2)


@rule(
    lambda g, table, op: g.Gather(g.const(table), ...) @ op,
    lambda g, table, op: g.Slice(g.const(table), ...) @ op,
    contract=LOSSY,
    group="store-int8-weights",
)
def store_int8_table(g: RewriteBuilder, table: Value, op: Op) -> Any:
    """Gather(table, i) => Gather(Cast(table as int8) * s, i); so for Slice, as of positions"""
    spec = required_spec(g)
    require(table.rank > 1 and table.dtype in HALF_OR_SINGLE, f"{table.name} is no table of floats")
    require(not is_scale(op.outputs[0]), f"{table.name} are scales")
    require(saved_bytes(table, table.rank - 2) > 0, f"{table.name} is small")
    return getattr(g, op.type)(stored(g, spec, table, table.rank - 2), *op.inputs[1:], **op.attrs)


class StoredForm(NamedTuple):
    """The dims in which weights are stored, and the axes along which each index has a scale."""

    dims: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int], axis: int) -> StoredForm:
        """A scale for each index of an axis, or for each block of at most STORED_BLOCK of the weights that have it."""
        before, channels, after = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
        whole = cls(tuple(shape), (axis,))
        if before * after <= 2 * STORED_BLOCK:
            return whole
        if after >= before:
            block = block_extent(after, STORED_BLOCK)
            return whole if block == after else cls((before, channels, after // block, block), (0, 1, 2))
        block = block_extent(before, STORED_BLOCK // after)
        return whole if block == before else cls((before // block, block, channels, after), (0, 2))

    @property
    def scale_dims(self) -> list[int]:
        """The dims of the scales."""
        return [n if i in self.kept else 1 for i, n in enumerate(self.dims)]


def block_extent(extent: int, most: int) -> int:
    """The largest divisor of an extent up to `most`; the extent itself if the blocks were small."""
    found = next((n for n in range(most, most // 4, -1) if extent % n == 0), 0) if most else 0
    return found or extent


def saved_bytes(w: Value, axis: int) -> int:
    """The bytes by which weights in int8, with their scales, make a file smaller."""
    width = helper.tensor_dtype_to_np_dtype(w.dtype).itemsize
    scales = prod(StoredForm.of(w.static_shape, axis).scale_dims)
    return (width - 1) * prod(w.static_shape) - 4 * scales - STORING_BYTES


def stored(g: RewriteBuilder, spec: QuantizationSpec, w: Value, axis: int) -> Value:
    """Weights as int8, times their scales."""
    dims, kept = form = StoredForm.of(w.static_shape, axis)
    summed = [i for i in range(len(dims)) if i not in kept]
    order = [*summed, *kept]
    turned = float_weights(w).reshape(dims).transpose(order)
    matrix = turned.reshape(-1, prod(dims[i] for i in kept))
    rounded = rounded_weights(matrix, Grid(-127, 127), spec.rounding)
    integers = rounded.integers.reshape(turned.shape).transpose(np.argsort(order)).astype(np.int8)
    scales = rounded.scales.reshape(form.scale_dims).astype(np.float32)
    floats = g.Mul(g.Cast(g.const(integers), to=TensorProto.FLOAT), g.const(scales))
    whole = floats if dims == w.static_shape else g.Reshape(floats, list(w.static_shape))
    return whole if w.dtype == TensorProto.FLOAT else g.Cast(whole, to=w.dtype)
