"""Simplification of Max, Min, Sum and Mean with one input, equal inputs or nested."""

from __future__ import annotations

import numpy as np

from ...core import EXACT, Op, RewriteBuilder, Value, require, rule
from ..support.operand_queries import (
    NO_NEGATIVE_ZERO,
    VARIADIC_BROADCASTING_OPSET,
    Inputs,
    require_bounded_growth,
    require_no_rounding,
    require_numpy_broadcasting,
)

EXTREMA = ("Max", "Min")
MAX_INPUTS = 64  # of one op


@rule(
    lambda g, x: g.one_of("Max", "Min", "Sum", "Mean")(x),
    lambda g, x: g.one_of(*EXTREMA)(x, x),
    contract=EXACT,
    group="merge-variadic",
)
def drop_single_operand(g: RewriteBuilder, x: Value) -> Value:
    """Max(x), Min(x), Sum(x), Mean(x), Max(x, x), Min(x, x) => x"""
    return x


@rule(
    lambda g, x, c, d, inner, outer: g.one_of(*EXTREMA)(g.one_of(*EXTREMA)(x, g.const(c)) @ inner, g.const(d)) @ outer,
    contract=NO_NEGATIVE_ZERO,
    group="merge-variadic",
)
def merge_extremum_constants(g: RewriteBuilder, x: Value, c: Value, d: Value, inner: Op, outer: Op) -> Value:
    """Max(Max(x, c), d) => Max(x, max(c, d)), and so for Min"""
    require(inner.type == outer.type, "the operators differ")
    require_numpy_broadcasting(g.opset, VARIADIC_BROADCASTING_OPSET)
    require(not x.is_const, "all operands are constant")
    require_bounded_growth(c, d)
    combine = np.maximum if outer.type == "Max" else np.minimum
    return getattr(g, outer.type)(x, g.const(combine(c.const, d.const), like=x))


@rule(
    lambda g, before, ins, after, inner, outer: (
        g.one_of(*EXTREMA)(*before, g.one_of(*EXTREMA)(*ins) @ inner, *after) @ outer
    ),
    contract=NO_NEGATIVE_ZERO,
    group="merge-variadic",
)
def flatten_extrema(g: RewriteBuilder, before: Inputs, ins: Inputs, after: Inputs, inner: Op, outer: Op) -> Value:
    """Max(a, Max(b, c), d) => Max(a, b, c, d), and so for Min"""
    require(inner.type == outer.type, "the operators differ")
    return getattr(g, outer.type)(*flattened_operands(g, before, ins, after))


@rule(lambda g, before, ins, after: g.Sum(*before, g.Sum(*ins), *after), group="merge-variadic")
def flatten_sum(g: RewriteBuilder, before: Inputs, ins: Inputs, after: Inputs) -> Value:
    """Sum(a, Sum(b, c), d) => Sum(a, b, c, d)"""
    require_no_rounding(*before, *ins, *after)
    return g.Sum(*flattened_operands(g, before, ins, after))


def flattened_operands(g: RewriteBuilder, before: Inputs, ins: Inputs, after: Inputs) -> Inputs:
    """The operands of both ops, in order; declines too many operands."""
    operands = (*before, *ins, *after)
    require_numpy_broadcasting(g.opset, VARIADIC_BROADCASTING_OPSET)
    require(len(operands) <= MAX_INPUTS, "too many operands")
    return operands
