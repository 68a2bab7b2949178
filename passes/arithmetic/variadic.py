"""Max, Min, Sum and Mean: of one input, of the same input, and inside one another."""

from __future__ import annotations

import numpy as np

from ...core import EXACT, Build, RulePass, Value, require, rule
from ..support.constant_operands import require_bounded_growth
from ..support.operand_queries import Inputs
from .ort_kernels import NO_NEGATIVE_ZERO

VARIADIC_BROADCASTING_OPSET = 8
MAX_INPUTS = 64  # of one op


@rule(lambda g, x: g.one_of("Max", "Min", "Sum", "Mean")(x), contract=EXACT)
def drop_single_operand(g: Build, x: Value) -> Value:
    """Max(x), Min(x), Sum(x), Mean(x) => x"""
    return x


@rule(lambda g, x: g.one_of("Max", "Min")(x, x), contract=EXACT)
def drop_equal_operands(g: Build, x: Value) -> Value:
    """Max(x, x), Min(x, x) => x"""
    return x


@rule(lambda g, before, ins, after: g.Max(*before, g.Max(*ins), *after), contract=NO_NEGATIVE_ZERO)
def flatten_max(g: Build, before: Inputs, ins: Inputs, after: Inputs) -> Value:
    """Max(a, Max(b, c), d) => Max(a, b, c, d)"""
    return g.Max(*flattened_operands(g, before, ins, after))


@rule(lambda g, before, ins, after: g.Min(*before, g.Min(*ins), *after), contract=NO_NEGATIVE_ZERO)
def flatten_min(g: Build, before: Inputs, ins: Inputs, after: Inputs) -> Value:
    """Min(a, Min(b, c), d) => Min(a, b, c, d)"""
    return g.Min(*flattened_operands(g, before, ins, after))


@rule(lambda g, before, ins, after: g.Sum(*before, g.Sum(*ins), *after))
def flatten_sum(g: Build, before: Inputs, ins: Inputs, after: Inputs) -> Value:
    """Sum(a, Sum(b, c), d) => Sum(a, b, c, d)"""
    return g.Sum(*flattened_operands(g, before, ins, after))


@rule(lambda g, x, c, d: g.Max(g.Max(x, g.const(c)), g.const(d)), contract=NO_NEGATIVE_ZERO)
def merge_max_constants(g: Build, x: Value, c: Value, d: Value) -> Value:
    """Max(Max(x, c), d) => Max(x, max(c, d))"""
    require_variadic_broadcasting(g, x)
    require_bounded_growth(c, d)
    return g.Max(x, g.const(np.maximum(c.const, d.const), like=x))


@rule(lambda g, x, c, d: g.Min(g.Min(x, g.const(c)), g.const(d)), contract=NO_NEGATIVE_ZERO)
def merge_min_constants(g: Build, x: Value, c: Value, d: Value) -> Value:
    """Min(Min(x, c), d) => Min(x, min(c, d))"""
    require_variadic_broadcasting(g, x)
    require_bounded_growth(c, d)
    return g.Min(x, g.const(np.minimum(c.const, d.const), like=x))


def flattened_operands(g: Build, before: Inputs, ins: Inputs, after: Inputs) -> Inputs:
    """The operands of both ops, in order; declines more than a reader of the model may like."""
    operands = (*before, *ins, *after)
    require(g.opset >= VARIADIC_BROADCASTING_OPSET, "before opset 8, the operands do not broadcast")
    require(len(operands) <= MAX_INPUTS, "too many operands")
    return operands


def require_variadic_broadcasting(g: Build, x: Value) -> None:
    """Constants of different shapes may meet; of constants alone another pass makes one."""
    require(g.opset >= VARIADIC_BROADCASTING_OPSET and not x.is_const, "it is not a chain of ops with constants")


MERGE_VARIADIC = RulePass(
    "merge-variadic",
    (
        drop_single_operand,
        drop_equal_operands,
        merge_max_constants,
        merge_min_constants,
        flatten_max,
        flatten_min,
        flatten_sum,
    ),
)
