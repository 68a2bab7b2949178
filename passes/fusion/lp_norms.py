"""Fusion of LpNormalization."""

from __future__ import annotations

from typing import Any

from ...core import Build, Op, RulePass, Value, conditional, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..support.operand_queries import kept_reduced_axes
from .polynomials import require_dtype, scalar_constant

MAX_EPSILON = 1e-6  # the most that may stand in for a length of 0


@rule(
    lambda g, x, length, axes=None: g.Div(x, g.one_of("ReduceL1", "ReduceL2")(x, axes) @ length),
    contract=conditional("no length is 0"),
)
def fuse_lp_norm(g: Build, x: Value, length: Op) -> Value:
    """Div(x, ReduceL2(x)) => LpNormalization(x, p=2), and so for ReduceL1"""
    return lp_norm(g, x, length)


@rule(
    lambda g, x, length, low, axes=None: g.Div(
        x, g.Clip(g.one_of("ReduceL1", "ReduceL2")(x, axes) @ length, min=low, max=None)
    ),
    contract=conditional("no length is below the bound that it is clipped to"),
)
def fuse_clipped_lp_norm(g: Build, x: Value, length: Op, low: Any) -> Value:
    """Div(x, Clip(ReduceL2(x), epsilon)) => LpNormalization(x, p=2), and so for ReduceL1"""
    require(isinstance(low, float) and 0 <= low <= MAX_EPSILON, "the bound is too large")
    return lp_norm(g, x, length)


@rule(
    lambda g, x, length, low, axes=None: g.Div(
        x, g.Max(g.one_of("ReduceL1", "ReduceL2")(x, axes) @ length, g.const(low))
    ),
    contract=conditional("no length is below the bound that it is held above"),
)
def fuse_bounded_lp_norm(g: Build, x: Value, length: Op, low: Value) -> Value:
    """Div(x, Max(ReduceL2(x), epsilon)) => LpNormalization(x, p=2), and so for ReduceL1"""
    require(0 <= scalar_constant(low, length.outputs[0]) <= MAX_EPSILON, "the bound is too large")
    return lp_norm(g, x, length)


@rule(
    lambda g, x, length, low, axes=None: g.Div(x, g.Sqrt(g.Max(g.ReduceSumSquare(x, axes) @ length, g.const(low)))),
    contract=conditional("no sum of squares is below the bound that it is held above"),
)
def fuse_rooted_lp_norm(g: Build, x: Value, length: Op, low: Value) -> Value:
    """Div(x, Sqrt(Max(ReduceSumSquare(x), epsilon))) => LpNormalization(x, p=2)"""
    return bounded_norm(g, x, length, low)


@rule(
    lambda g, x, length, low, axes=None: g.Mul(
        x, g.Reciprocal(g.Sqrt(g.Max(g.ReduceSumSquare(x, axes) @ length, g.const(low))))
    ),
    contract=conditional("no sum of squares is below the bound that it is held above"),
)
def fuse_inverted_lp_norm(g: Build, x: Value, length: Op, low: Value) -> Value:
    """Mul(x, Reciprocal(Sqrt(Max(ReduceSumSquare(x), epsilon)))) => LpNormalization(x, p=2)"""
    return bounded_norm(g, x, length, low)


def bounded_norm(g: Build, x: Value, total: Op, low: Value) -> Value:
    """Build the normalization of `x` by the root of its sum of squares `total`, bounded below by `low`."""
    require(0 <= scalar_constant(low, total.outputs[0]) <= MAX_EPSILON**2, "the bound is too large")
    return lp_norm(g, x, total)


def lp_norm(g: Build, x: Value, length: Op) -> Value:
    """Build the normalization of `x` by its norm `length` along one axis."""
    require_dtype(x, HALF_OR_SINGLE)
    axes = kept_reduced_axes(x, length)
    require(len(axes) == 1, "the norm is over several axes")
    return g.LpNormalization(x, axis=axes[0], p=1 if length.type == "ReduceL1" else 2)


FUSE_LP_NORM = RulePass(
    "fuse-lp-norm",
    (fuse_lp_norm, fuse_clipped_lp_norm, fuse_bounded_lp_norm, fuse_rooted_lp_norm, fuse_inverted_lp_norm),
)
