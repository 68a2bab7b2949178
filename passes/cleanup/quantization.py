"""Removal of quantization that changes nothing, and of clamps in front of quantization."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from ...core import EXACT, Op, RewriteBuilder, Value, require, rule
from ...core.ir.dtypes import FLOATS, INTEGER_DTYPES
from ...core.operators.declaration import Trait
from ...core.operators.operands import normalized_axis
from ...core.operators.table import ops_with
from ..arithmetic.clamp_rules import required_clamp
from ..arithmetic.value_ranges import CLAMPS
from ..support.operand_queries import Array, has_one_use, operand, required_producer

MOVEMENTS = tuple(sorted(ops_with(Trait.MOVES_DATA) - {"Split"}))
# Scales are positive: the greatest integer stands for the greatest number, and the least one for padding.
SELECTIONS = ("Concat", "MaxPool", *MOVEMENTS)
BYTE_OPS = frozenset({"DepthToSpace", "MaxPool", "SpaceToDepth"})
BYTES = frozenset({TensorProto.INT8, TensorProto.UINT8})
# The integers that onnxruntime moves: of four bits only by Transpose, of 16 not by the ops above.
MOVABLE_TYPES = BYTES | {TensorProto.INT16, TensorProto.UINT16}
# On x86, onnxruntime makes int8 unsigned where a DequantizeLinear directly follows a QuantizeLinear; elsewhere it fuses
# no QLinearConv or QGemm of int8.
SIGNED_PAIR = "onnxruntime would not fuse the quantized ops before and behind it"
MAX_DEPTH = 16  # ops between a DequantizeLinear and a QuantizeLinear
quantization_rule = partial(rule, contract=EXACT, group="simplify-quantization")


class Quantization(NamedTuple):
    """The parameters of a QuantizeLinear or DequantizeLinear of integers.

    `scales` are in float64, `zeros` in int64, in one shape; `blocks` are the axis and the block size along which they
    vary, None for a whole tensor. `integers` and `floats` are the element types.
    """

    scales: Array
    zeros: Array
    blocks: tuple[int, int] | None
    integers: int
    floats: int

    def equals(self, other: Quantization) -> bool:
        """Whether two ops have the same parameters."""
        same = np.array_equal(self.scales, other.scales) and np.array_equal(self.zeros, other.zeros)
        return same and self[2:] == other[2:]

    @property
    def ends(self) -> tuple[Array, Array]:
        """The least and the greatest integer, each less the zero points."""
        limits = cast("Any", ml_dtypes.iinfo(helper.tensor_dtype_to_np_dtype(self.integers)))
        return limits.min - self.zeros, limits.max - self.zeros

    @property
    def float_limits(self) -> Any:
        """The limits of the floats."""
        return cast("Any", ml_dtypes.finfo(helper.tensor_dtype_to_np_dtype(self.floats)))


def quantization(op: Op) -> Quantization:
    """The constant parameters of an op whose floats and scales have one type; declines others."""
    x, scale, zero, made = operand(op), operand(op, 1), op.input(2), op.outputs[0]
    integers, floats = (x, made) if op.type == "DequantizeLinear" else (made, x)
    require(integers.dtype in INTEGER_DTYPES and floats.dtype in FLOATS, "it is not from floats to integers, or back")
    require(floats.dtype == scale.dtype and not op.attr("precision", 0), "it computes in another type")
    scales = scale.const.astype(np.float64)
    require(bool((np.isfinite(scales) & (scales > 0)).all()) and scales.size > 0, "a scale is not positive and finite")
    zeros = np.zeros(scales.shape, np.int64) if zero is None else zero.const.astype(np.int64)
    require(zeros.size == scales.size, "the numbers of scales and zero points differ")
    if scales.size == 1:
        return Quantization(scales.reshape(()), zeros.reshape(()), None, integers.dtype, floats.dtype)
    blocks = normalized_axis(op, x.rank, 1), op.attr("block_size", 0)
    return Quantization(scales, zeros, blocks, integers.dtype, floats.dtype)


@quantization_rule(
    lambda g, x, inner, outer: g.QuantizeLinear(g.DequantizeLinear(x, ...) @ inner, ...) @ outer, allow_other_uses=True
)
def cancel_quantization(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """QuantizeLinear(DequantizeLinear(x, s, z), s, z) => x"""
    require_same_quantization(inner, quantization(outer))
    needs_identity = outer.graph.is_output(outer.outputs[0]) and x.dtype not in MOVABLE_TYPES
    require(not needs_identity, "onnxruntime has no Identity of this type")
    return x


@quantization_rule(lambda g, moved, outer: g.QuantizeLinear(g.one_of(*SELECTIONS)(...) @ moved, ...) @ outer)
def move_integers(g: RewriteBuilder, moved: Op, outer: Op) -> Value:
    """QuantizeLinear(Reshape(DequantizeLinear(x, s, z)), s, z) => Reshape(x), so all movements, Concat, MaxPool"""
    return on_integers(g, moved.outputs[0], movable_quantization([outer]), MAX_DEPTH)


@quantization_rule(lambda g, split: g.Split(...) @ split)
def split_integers(g: RewriteBuilder, split: Op) -> tuple[Value | None, ...]:
    """Split(DequantizeLinear(x, s, z)) => DequantizeLinear(Split(x), s, z), where the parts are quantized alike"""
    readers = [user for v in split.outputs for user in v.consumers]
    quantized = all(user.type == "QuantizeLinear" and not user.domain for user in readers)
    require(quantized and not any(map(split.graph.is_output, split.outputs)), "a part is not quantized")
    given = movable_quantization(readers)
    integers = on_integers(g, operand(split), given, MAX_DEPTH)
    require(len(split.outputs) > 1, "it is one part")
    parts = g.Split(integers, *split.inputs[1:], outputs=len(split.outputs), **split.attrs)
    scale, zero = g.const(given.scales, like=operand(readers[0], 1)), g.const(given.zeros, like=integers)
    both = zip(split.outputs, parts, strict=True)
    return tuple(g.DequantizeLinear(part, scale, zero) if old.consumers else None for old, part in both)


def movable_quantization(quantized: Sequence[Op]) -> Quantization:
    """The parameters that QuantizeLinear ops share, for integers that onnxruntime can move; declines others."""
    require(bool(quantized), "nothing is quantized")
    given, *others = map(quantization, quantized)
    require(all(map(given.equals, others)), "the scales, the zero points or the types differ")
    require(given.blocks is None, "the parameters vary along an axis")
    require(given.integers in MOVABLE_TYPES, "onnxruntime does not move this type")
    is_paired = any(user.type == "DequantizeLinear" for op in quantized for user in op.outputs[0].consumers)
    require(not is_paired or given.integers != TensorProto.INT8, SIGNED_PAIR)
    return given


def on_integers(g: RewriteBuilder, v: Value, given: Quantization, depth: int) -> Value:
    """Build `v`, dequantized integers that have been moved, of the integers; declines any other value."""
    op = required_producer(v, "DequantizeLinear", *SELECTIONS)
    if op.type == "DequantizeLinear":
        require_same_quantization(op, given)
        maker = operand(op).producer
        is_paired = maker is not None and maker.type == "QuantizeLinear"
        require(not is_paired or given.integers != TensorProto.INT8, SIGNED_PAIR)
        return operand(op)
    require(depth > 0 and op.graph is g.graph and has_one_use(v), "an intermediate value has other consumers")
    require(op.type not in BYTE_OPS or given.integers in BYTES, f"onnxruntime has no {op.type} of this type")
    require(op.type != "MaxPool" or (op.version >= 12 and len(op.outputs) == 1), "it is not a MaxPool of bytes alone")
    moved = len(op.inputs) if op.type == "Concat" else 1
    integers = (on_integers(g, operand(op, i), given, depth - 1) for i in range(moved))
    return getattr(g, op.type)(*integers, *op.inputs[moved:], **op.attrs)


def require_same_quantization(dequantize: Op, given: Quantization) -> None:
    """Decline unless quantization with `given` parameters restores the integers of a DequantizeLinear."""
    require(quantization(dequantize).equals(given), "the scales, the zero points or the types differ")
    # (i - zero) * scale is rounded, and its quotient by the scale, each by half an epsilon: together by less than 0.5.
    distance, limits = np.abs(given.ends).max(axis=0), given.float_limits
    require(bool((distance * float(limits.eps) < 0.499).all()), "the floats have fewer digits than the integers")
    require(bool((distance * given.scales <= float(limits.max)).all()), "an integer times its scale overflows")


@quantization_rule(lambda g, clamp, outer: g.QuantizeLinear(g.one_of(*CLAMPS)(...) @ clamp, ...) @ outer)
def drop_clamp_before_quantization(g: RewriteBuilder, clamp: Op, outer: Op) -> Value:
    """QuantizeLinear(Relu(x), s, z) => QuantizeLinear(x, s, z), of the least z; so Clip, Max, Min with wide bounds"""
    x, bounds = required_clamp(clamp)
    given = quantization(outer)
    # Of infinite halves, and of infinities in blocks, onnxruntime makes any integer.
    saturates = given.floats == TensorProto.FLOAT and not outer.attr("block_size", 0)
    require(saturates, "infinities may not become the ends of the integers")
    (low, high), eps = given.ends, float(given.float_limits.eps)
    # Whatever the rounding of the quotient, the bounds become the ends of the integers.
    least, greatest = bounds.low / given.scales, bounds.high / given.scales
    require(bool((least <= low + 0.499 - eps * np.abs(low)).all()), "the lower bound is within the integers")
    require(bool((greatest >= high - 0.499 + eps * np.abs(high)).all()), "the upper bound is within the integers")
    return g.QuantizeLinear(x, operand(outer, 1), outer.input(2), **outer.attrs)
