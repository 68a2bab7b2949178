"""Removal of reductions over single elements, or over none."""

from __future__ import annotations

from onnx import TensorProto

from ...core import EXACT, Build, Op, RulePass, Value, conditional, require, rule, same_extent
from ..support.operand_queries import constant_integers, is_float_value, normalized_axes, required_scalar

SUM_REDUCTIONS = frozenset({"ReduceMean", "ReduceSum"})
ARITHMETIC_REDUCTIONS = SUM_REDUCTIONS | {"ReduceProd"}
INT64_TYPES = frozenset({TensorProto.INT64, TensorProto.UINT64})
"""Whole numbers that onnxruntime adds up and multiplies as doubles."""


@rule(
    lambda g, x, op: g.one_of("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")(x, ...) @ op,
    contract=EXACT,
)
def drop_no_op_reduction(g: Build, x: Value, op: Op) -> Value:
    """ReduceSum(x, no axes, noop_with_empty_axes=1) => x, and so ReduceMax, ReduceMean, ReduceMin, ReduceProd"""
    require(not constant_integers(op) and op.attr("noop_with_empty_axes", 0), "the op reduces axes")
    return x


@rule(
    lambda g, x, op: g.one_of("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")(x, ...) @ op,
    contract=EXACT,
)
def drop_reduction_of_unit_axes(g: Build, x: Value, op: Op) -> Value:
    """ReduceMax(x, axes of extent 1) => x, or Squeeze(x, axes); so ReduceMin, ReduceProd, and sums of whole numbers"""
    require(op.type not in SUM_REDUCTIONS or not is_float_value(x), "x is a float: a negative zero may become positive")
    require(op.type not in ARITHMETIC_REDUCTIONS or x.dtype not in INT64_TYPES, "onnxruntime computes it in float64")
    return without_unit_axes(g, x, op)


@rule(
    lambda g, x, op: g.one_of("ReduceMean", "ReduceProd", "ReduceSum")(x, ...) @ op,
    contract=conditional("no zero is negative, and no integer beyond 2**53"),
)
def drop_sum_of_unit_axes(g: Build, x: Value, op: Op) -> Value:
    """ReduceSum(x, axes of extent 1) => x, or Squeeze(x, axes), and so ReduceMean and ReduceProd"""
    return without_unit_axes(g, x, op)


@rule(lambda g, x, axis, op: g.one_of("CumProd", "CumSum")(x, g.const(axis)) @ op, contract=EXACT)
def drop_cumulative_op_of_unit_axis(g: Build, x: Value, axis: Value, op: Op) -> Value:
    """CumSum(x, an axis of extent 1) => x, and so CumProd"""
    require(not op.attr("exclusive", 0), "it is exclusive")
    (at,) = normalized_axes([required_scalar(axis)], x.rank)
    require(same_extent(x.shape[at], 1), "the extent of the axis is not 1")
    return x


@rule(lambda g, x, lengths, op: g.ReverseSequence(x, lengths) @ op, contract=EXACT)
def drop_reverse_of_unit_axis(g: Build, x: Value, op: Op) -> Value:
    """ReverseSequence(x, lengths) => x, where a sequence has one element at most"""
    (at,) = normalized_axes([op.attr("time_axis", 0)], x.rank)
    require(same_extent(x.shape[at], 1), "the extent of the time axis is not 1")
    return x


def without_unit_axes(g: Build, x: Value, op: Op) -> Value:
    """`x` without the axes that `op` reduces, if it does not keep them; declines unless all of them have extent 1."""
    axes = constant_integers(op)
    require(axes or not op.attr("noop_with_empty_axes", 0), "the op has no axes")
    reduced = normalized_axes(axes, x.rank) if axes else list(range(x.rank))
    require(all(same_extent(x.shape[a], 1) for a in reduced), "a reduced axis has an extent other than 1")
    if not reduced or op.attr("keepdims", 1):
        return x
    # Of a tensor without elements, onnxruntime keeps the axes that are counted from the end.
    fixed = all(isinstance(d, int) and d > 0 for d in x.shape)
    require(fixed or not axes or min(axes) >= 0, "x may be empty")
    return g.Squeeze(x, axes=reduced)


DROP_NO_OP_REDUCTIONS = RulePass("drop-no-op-reductions", (
    drop_no_op_reduction, drop_reduction_of_unit_axes, drop_sum_of_unit_axes, drop_cumulative_op_of_unit_axis,
    drop_reverse_of_unit_axis,
))  # fmt: skip
