"""Merging of reductions with reductions, and with reshapes of the reduced axes."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from ...core import EXACT, Op, RewriteBuilder, Value, by_dtype, conditional, require, rule
from ..support.operand_queries import (
    inferred_shape,
    is_no_negative_zero,
    normalized_axes,
    reduced_axes,
    require_exact_axes,
    same_shape,
)
from .reshapes import RESHAPE_OPS

ARITHMETIC_REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceProd")
EXTREMA = ("ReduceMax", "ReduceMin")
REDUCTIONS = (
    *ARITHMETIC_REDUCTIONS, *EXTREMA, "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    "ArgMax", "ArgMin",
)  # fmt: skip
REDUCED_INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.INT8})


# onnxruntime sums and multiplies integers as doubles, and saturates each result.
@rule(
    lambda g, x, inner, outer: (
        g.one_of(*ARITHMETIC_REDUCTIONS)(g.one_of(*ARITHMETIC_REDUCTIONS)(x, ...) @ inner, ...) @ outer
    ),
    contract=by_dtype(REDUCED_INTEGERS, conditional("no result exceeds 2**53 or overflows")),
    group="merge-reductions",
)
def merge_reductions(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """ReduceSum(ReduceSum(x, a), b) => ReduceSum(x, a and b), so ReduceProd and, of floats, ReduceMean"""
    require(outer.type != "ReduceMean" or x.dtype not in REDUCED_INTEGERS, "means of integers truncate")
    return _merge(g, x, inner, outer)


@rule(
    lambda g, x, inner, outer: g.one_of(*EXTREMA)(g.one_of(*EXTREMA)(x, ...) @ inner, ...) @ outer,
    contract=by_dtype(
        REDUCED_INTEGERS,
        EXACT,
        otherwise=conditional("no element is NaN, and no zero is negative", each=is_no_negative_zero),
    ),
    group="merge-reductions",
)
def merge_extrema(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """ReduceMax(ReduceMax(x, a), b) => ReduceMax(x, a and b); so ReduceMin"""
    return _merge(g, x, inner, outer)


@rule(
    lambda g, x, inner, outer: g.one_of(*RESHAPE_OPS)(g.one_of(*REDUCTIONS)(x, ...) @ inner, ...) @ outer,
    contract=EXACT,
    group="merge-reductions",
)
def keep_or_drop_reduced_axes(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """Unsqueeze(ReduceX(x, a, keepdims=0), a) => ReduceX(x, a, keepdims=1); Squeeze likewise"""
    axes, keeps = required_reduced_axes(inner, x), bool(inner.attr("keepdims", 1))
    wanted = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if not keeps or i not in axes)
    require(same_shape(inferred_shape(outer), wanted), "the op changes more than the reduced axes")
    return _build_reduction(g, inner, x, axes, keeps=not keeps)


def required_reduced_axes(op: Op, x: Value) -> list[int]:
    """The axes that a reduction of `x` reduces, from the front; declines where there are none."""
    if op.type.startswith("Arg"):
        return normalized_axes([int(op.attr("axis", 0))], x.rank)
    axes = reduced_axes(op, x.rank)
    require(bool(axes), "the op reduces no axis")
    require_exact_axes(op, x)
    return axes


def _build_reduction(g: RewriteBuilder, like: Op, x: Value, axes: list[int], *, keeps: bool) -> Value:
    """A reduction of the kind of `like`."""
    attrs: dict[str, Any] = {"axes": axes, "keepdims": int(keeps)}
    if like.type.startswith("Arg"):
        attrs = {**like.attrs, "keepdims": int(keeps)}
    return getattr(g, like.type)(x, **attrs)


def _merge(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """One reduction for two of the same type."""
    require(inner.type == outer.type, "the reductions differ")
    first = required_reduced_axes(inner, x)
    second = required_reduced_axes(outer, inner.outputs[0])
    keeps_first, keeps = bool(inner.attr("keepdims", 1)), bool(outer.attr("keepdims", 1))
    if not keeps_first:
        left = [i for i in range(x.rank) if i not in first]
        second = [left[i] for i in second]
    require(keeps_first == keeps or (keeps_first and set(first) <= set(second)), "only some reduced axes are kept")
    return _build_reduction(g, outer, x, sorted({*first, *second}), keeps=keeps)
