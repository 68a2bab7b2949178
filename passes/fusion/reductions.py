"""Fusion of ReduceSumSquare, ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp and ReduceMean.

Floats only: where integers overflow, onnxruntime gives other sums of squares than Mul and ReduceSum do.
"""

from __future__ import annotations

from math import prod

from ...core import Op, RewriteBuilder, Value, conditional, require, rule
from ...core.ir.dtypes import CPU_FLOATS
from ..support.operand_queries import constant_numbers, is_finite, normalized_axes, reduced_axes, unless_declined
from .polynomials import require_dtype, require_scalar


@rule(
    lambda g, x, total, axes=None: g.ReduceSum(g.Mul(x, x), axes) @ total,
    lambda g, x, total, axes=None: g.ReduceSum(g.Pow(x, 2), axes) @ total,
    group="fuse-reductions",
)
def fuse_reduce_sum_square(g: RewriteBuilder, x: Value, total: Op, axes: Value | None) -> Value:
    """ReduceSum(x * x), ReduceSum(Pow(x, 2)) => ReduceSumSquare(x)"""
    require_fast_reduction(g, "ReduceSumSquare", x, total)
    return build_reduction(g, "ReduceSumSquare", x, total, axes)


@rule(lambda g, x, total, axes=None: g.ReduceSum(g.Abs(x), axes) @ total, group="fuse-reductions")
def fuse_reduce_l1(g: RewriteBuilder, x: Value, total: Op, axes: Value | None) -> Value:
    """ReduceSum(Abs(x)) => ReduceL1(x)"""
    require_fast_reduction(g, "ReduceL1", x, total)
    return build_reduction(g, "ReduceL1", x, total, axes)


@rule(lambda g, x, total, axes=None: g.Sqrt(g.ReduceSumSquare(x, axes) @ total), group="fuse-reductions")
def fuse_reduce_l2(g: RewriteBuilder, x: Value, total: Op, axes: Value | None) -> Value:
    """Sqrt(ReduceSumSquare(x)) => ReduceL2(x)"""
    return build_reduction(g, "ReduceL2", x, total, axes)


@rule(
    lambda g, x, total, axes=None: g.Log(g.ReduceSum(g.Exp(x), axes) @ total),
    contract=conditional("Exp(x) does not overflow", each=is_finite),
    group="fuse-reductions",
)
def fuse_reduce_log_sum_exp(g: RewriteBuilder, x: Value, total: Op, axes: Value | None) -> Value:
    """Log(ReduceSum(Exp(x))) => ReduceLogSumExp(x)"""
    g.costs.require_fast_kernel("ReduceLogSumExp", x, saved=2)
    return build_reduction(g, "ReduceLogSumExp", x, total, axes)


@rule(lambda g, x, total, axes=None: g.Log(g.ReduceSum(x, axes) @ total), group="fuse-reductions")
def fuse_reduce_log_sum(g: RewriteBuilder, x: Value, total: Op, axes: Value | None) -> Value:
    """Log(ReduceSum(x)) => ReduceLogSum(x)"""
    require_fast_reduction(g, "ReduceLogSum", x, total)
    return build_reduction(g, "ReduceLogSum", x, total, axes)


@rule(
    lambda g, x, n, total, op, axes=None: g.one_of("Div", "Mul")(g.ReduceSum(x, axes) @ total, g.const(n)) @ op,
    group="fuse-reduce-mean",
)
def fuse_reduce_mean(g: RewriteBuilder, x: Value, n: Value, total: Op, op: Op, axes: Value | None) -> Value:
    """ReduceSum(x) / n => ReduceMean(x), ReduceSum(x) * (1 / n) => ReduceMean(x)"""
    over = reduced_axes(total, x.rank)
    extents = [d for i in over if isinstance(d := x.shape[i], int)]
    require(len(extents) == len(over) and prod(extents) > 0, "the number of reduced elements is unknown")
    count = float(prod(extents))
    require_scalar(n, count if op.type == "Div" else 1 / count, total.outputs[0])
    return build_reduction(g, "ReduceMean", x, total, axes)


def require_fast_reduction(g: RewriteBuilder, name: str, x: Value, total: Op) -> None:
    """Decline a kernel that is slow unless it reduces all axes, or one that is not the last."""
    if total.input(1) is None and "axes" not in total.attrs:
        return
    axes = normalized_axes(unless_declined(constant_numbers, total) or [], x.rank)
    if len(axes) < x.rank and not (len(axes) == 1 and axes[0] < x.rank - 1):
        g.costs.require_fast_kernel(name, x, saved=1)


def build_reduction(g: RewriteBuilder, name: str, x: Value, total: Op, axes: Value | None) -> Value:
    """The reduction `name` of `x` over the axes that `total` sums over."""
    require_dtype(x, CPU_FLOATS)
    require(not total.attr("noop_with_empty_axes", 0), "noop_with_empty_axes is set")
    require(axes is None or not axes.is_const or (axes.rank == 1 and axes.shape != (0,)), "the axes are no list")
    attrs = {k: v for k, v in total.attrs.items() if k != "noop_with_empty_axes"}
    return getattr(g, name)(x, axes, **attrs)
