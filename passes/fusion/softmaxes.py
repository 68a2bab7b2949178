"""Fusion of Softmax and LogSoftmax."""

from __future__ import annotations

from onnx import TensorProto

from ...core import EXACT, Op, RewriteBuilder, Value, conditional, require, rule, same_extent
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..support.operand_queries import (
    has_n_consumers,
    inferred_shape,
    is_finite,
    kept_reduced_axes,
    operand,
    required_producer,
    same_shape,
)
from .polynomials import require_dtype

SINGLE_AXIS_OPSET = 13  # since this opset; before, an axis and all that follow are taken together


@rule(lambda g, e, total, axes=None: g.Div(e, g.ReduceSum(e, axes) @ total), group="fuse-softmax")
def fuse_softmax(g: RewriteBuilder, e: Value, total: Op) -> Value:
    """Exp(x - ReduceMax(x)) / ReduceSum(Exp(x - ReduceMax(x))) => Softmax(x)"""
    return g.Softmax(input_of_max_subtraction(exp_operand(e), total), axis=softmax_axis(e, total))


@rule(
    lambda g, e, total, axes=None: g.Div(e, g.ReduceSum(e, axes) @ total),
    contract=conditional("Exp(x) does not overflow", each=is_finite),
    group="fuse-softmax",
)
def fuse_softmax_of_exponentials(g: RewriteBuilder, e: Value, total: Op) -> Value:
    """Exp(x) / ReduceSum(Exp(x)) => Softmax(x)"""
    return g.Softmax(exp_operand(e), axis=softmax_axis(e, total))


@rule(lambda g, d, total, axes=None: g.Sub(d, g.Log(g.ReduceSum(g.Exp(d), axes) @ total)), group="fuse-softmax")
def fuse_log_softmax(g: RewriteBuilder, d: Value, total: Op) -> Value:
    """Sub(d, Log(ReduceSum(Exp(d)))), d = x - ReduceMax(x) => LogSoftmax(x)"""
    return g.LogSoftmax(input_of_max_subtraction(d, total), axis=softmax_axis(d, total))


@rule(
    lambda g, x, total, axes=None: g.Sub(x, g.Log(g.ReduceSum(g.Exp(x), axes) @ total)),
    contract=conditional("Exp(x) does not overflow", each=is_finite),
    group="fuse-softmax",
)
def fuse_log_softmax_of_exponentials(g: RewriteBuilder, x: Value, total: Op) -> Value:
    """Sub(x, Log(ReduceSum(Exp(x)))) => LogSoftmax(x)"""
    return g.LogSoftmax(x, axis=softmax_axis(x, total))


@rule(
    lambda g, x, total, axes=None: g.Sub(x, g.ReduceLogSumExp(x, axes) @ total),
    contract=conditional("no number is infinite", each=is_finite),
    group="fuse-softmax",
)
def fuse_log_softmax_of_log_sum(g: RewriteBuilder, x: Value, total: Op) -> Value:
    """Sub(x, ReduceLogSumExp(x)) => LogSoftmax(x)"""
    return g.LogSoftmax(x, axis=softmax_axis(x, total))


@rule(
    lambda g, x, a: g.Log(g.Softmax(x, axis=a)),
    contract=conditional("no share underflows to 0", assume=lambda g, x, a: g.Greater(g.Softmax(x, axis=a), 0)),
    group="fuse-softmax",
)
def fuse_log_of_softmax(g: RewriteBuilder, x: Value, a: int) -> Value:
    """Log(Softmax(x)) => LogSoftmax(x)"""
    require(x.dtype in {TensorProto.FLOAT, TensorProto.DOUBLE}, "half precision is too coarse")
    return g.LogSoftmax(x, axis=a)


def exp_operand(e: Value) -> Value:
    """The x of `e`, which is Exp(x) and read by a sum and a division alone."""
    op = required_producer(e, "Exp")
    require(has_n_consumers(e, 2), f"{e.name} is read elsewhere")
    return operand(op)


def input_of_max_subtraction(d: Value, total: Op) -> Value:
    """The x of which `d` is x - ReduceMax(x), along the axes of `total`."""
    sub = required_producer(d, "Sub")
    x, top = operand(sub), required_producer(operand(sub, 1), "ReduceMax")
    require(operand(top) is x, f"{d.name} is not centred by its mean")
    require(kept_reduced_axes(x, top) == kept_reduced_axes(d, total), "the maximum is over other axes")
    return x


def softmax_axis(x: Value, total: Op) -> int:
    """The axis of the Softmax of `x` whose sums `total` gives."""
    require_dtype(x, HALF_OR_SINGLE)  # among doubles, onnxruntime spreads a NaN in other ways
    axes = kept_reduced_axes(x, total)
    suffix = list(range(axes[0], x.rank))
    require(len(axes) == 1 if total.version >= SINGLE_AXIS_OPSET else axes == suffix, f"no Softmax has axes {axes}")
    return axes[0]


@rule(
    lambda g, x, inner, softmax, outer: (
        g.Reshape(g.one_of("Softmax", "LogSoftmax")(g.one_of("Reshape", "Flatten")(x, ...) @ inner) @ softmax, ...)
        @ outer
    ),
    contract=EXACT,
    group="fuse-softmax",
)
def softmax_without_reshapes(g: RewriteBuilder, x: Value, inner: Op, softmax: Op, outer: Op) -> Value:
    """Reshape(Softmax(Reshape(x))) => Softmax(x), where the last dim stays and x has the shape of the result"""
    flat = inner.outputs[0]
    require(g.opset >= SINGLE_AXIS_OPSET, f"before opset {SINGLE_AXIS_OPSET}, several axes are taken together")
    require(x.rank > 0 and flat.rank > 0 and same_shape(x.shape, inferred_shape(outer)), "the shapes differ")
    is_last = softmax.attr("axis", -1) in {-1, flat.rank - 1} and same_extent(x.shape[-1], flat.shape[-1])
    require(is_last, f"it is not over the last dim of {x.name}")
    return getattr(g, softmax.type)(x, axis=-1)
