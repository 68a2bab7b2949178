"""Constants that are added, subtracted, multiplied or divided by one after the other become one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core import EXACT, Build, Op, RulePass, Value, conditional, require, rule
from ..support.constant_operands import constant_binary, downcast_at_full_precision, require_bounded_growth, upcast
from ..support.dtypes import FLOATS
from ..support.operand_queries import Array, Inputs, is_integer_dtype

MAX_CANCELLATION = 8  # by how much a sum of constants may be smaller than they are: rounding is lost with it


class Shift(NamedTuple):
    """sign * x + c"""

    x: Value
    sign: int
    c: Value


class Scaling(NamedTuple):
    """x * c, x / c where it `is_divisor`, or c / x where it `is_dividend`."""

    x: Value
    c: Value
    is_divisor: bool
    is_dividend: bool


@rule(
    lambda g, before, ins, after, inner, outer: (
        g.one_of("Add", "Sub")(*before, g.one_of("Add", "Sub")(*ins) @ inner, *after) @ outer
    ),
    contract=EXACT,
)
def merge_added_integers(g: Build, before: Inputs, ins: Inputs, after: Inputs, inner: Op, outer: Op) -> Value:
    """Integers' (x + c) + d => x + (c + d), and all the like with Sub"""
    return merge_shifts(g, inner, outer, floats=False)


@rule(
    lambda g, before, ins, after, inner, outer: (
        g.one_of("Add", "Sub")(*before, g.one_of("Add", "Sub")(*ins) @ inner, *after) @ outer
    )
)
def merge_added_constants(g: Build, before: Inputs, ins: Inputs, after: Inputs, inner: Op, outer: Op) -> Value:
    """(x + c) + d => x + (c + d), c - (d - x) => x + (c - d), and all the like"""
    return merge_shifts(g, inner, outer, floats=True)


@rule(lambda g, x, c, d: g.Mul(g.Mul(x, g.const(c)), g.const(d)), contract=EXACT)
def merge_integer_factors(g: Build, x: Value, c: Value, d: Value) -> Value:
    """Integers' (x * c) * d => x * (c * d)"""
    require(g.opset >= 7 and not x.is_const, "it is not a chain of ops with constants")
    require(c.dtype not in FLOATS, "float arithmetic rounds")
    require_bounded_growth(c, d)
    with np.errstate(all="ignore"):  # integers wrap around, here as there
        return g.Mul(x, g.const(c.const * d.const, like=c))


@rule(lambda g, x, c, d: g.Div(g.Div(x, g.const(c)), g.const(d)), contract=EXACT)
def merge_integer_divisors(g: Build, x: Value, c: Value, d: Value) -> Value:
    """Integers' (x / c) / d => x / (c * d), for divisors above 0"""
    require(g.opset >= 7 and not x.is_const, "it is not a chain of ops with constants")
    require(is_integer_dtype(c.dtype), "float arithmetic rounds")
    require_bounded_growth(c, d)
    most = int(np.iinfo(c.const.dtype).max)
    require(int(c.const.min()) > 0 and int(d.const.min()) > 0, "the signs differ, so truncation differs")
    require(int(c.const.max()) * int(d.const.max()) <= most, "the product overflows")
    return g.Div(x, g.const(c.const * d.const, like=c))


@rule(
    lambda g, a, b, c, op: g.one_of("Add", "Sub")(g.Mul(a, g.const(c)), g.Mul(b, g.const(c))) @ op,
    contract=conditional("no sum overflows, and no zero is negative"),
)
def factor_out_constant(g: Build, a: Value, b: Value, c: Value, op: Op) -> Value:
    """(a * c) + (b * c) => (a + b) * c, and so for Sub"""
    require(g.opset >= 7, "before opset 7, broadcasting follows other rules")
    require(a is not b, "both terms are the same product")
    return g.Mul(g.Add(a, b) if op.type == "Add" else g.Sub(a, b), c)


@rule(
    lambda g, before, ins, after, inner, outer: (
        g.one_of("Mul", "Div")(*before, g.one_of("Mul", "Div")(*ins) @ inner, *after) @ outer
    )
)
def merge_constant_factors(g: Build, before: Inputs, ins: Inputs, after: Inputs, inner: Op, outer: Op) -> Value:
    """(x * c) * d => x * (c * d), (x * c) / d => x * (c / d), c / (d / x) => x * (c / d), and all the like"""
    second = required_scaling(outer)
    require(second.x is inner.outputs[0], "the two ops are not chained")
    first = required_scaling(inner)
    require(first.c.dtype in FLOATS, "integer division truncates between the two ops")
    require_bounded_growth(first.c, second.c)
    return merge_scalings(g, first, second)


def merge_shifts(g: Build, inner: Op, outer: Op, *, floats: bool) -> Value:
    """The Add or Sub that `inner` and then `outer` come to."""
    second = required_shift(outer)
    require(second.x is inner.outputs[0], "the two ops are not chained")
    first = required_shift(inner)
    require((first.c.dtype in FLOATS) == floats, "the element type is not covered by this rule")
    require_bounded_growth(first.c, second.c)
    d = signed_constant(outer, second.c)
    with np.errstate(all="ignore"):
        moved = signed_constant(inner, first.c)
        c = (moved if second.sign > 0 else np.negative(moved)) + d
        most = np.maximum(np.abs(moved), np.abs(d)) if floats else None
    # Adding and subtracting a large number is a way to round.
    require(most is None or bool((np.abs(c) * MAX_CANCELLATION >= most).all()), "the constants cancel each other")
    made = downcast_at_full_precision(g, np.asarray(c), first.c)
    return g.Add(first.x, made) if first.sign == second.sign else g.Sub(made, first.x)


def required_shift(op: Op) -> Shift:
    """What an Add or Sub with one constant does; `signed_constant` gives the constant as it is added."""
    x, c, turned = constant_binary(op)
    return Shift(x, -1 if op.type == "Sub" and turned else 1, c)


def signed_constant(op: Op, c: Value) -> Array:
    """The constant operand of an Add or Sub as it is added."""
    subtracts = op.type == "Sub" and op.inputs[1] is c
    return np.asarray(np.negative(upcast(c))) if subtracts else upcast(c)


def required_scaling(op: Op) -> Scaling:
    """What a Mul or Div with one constant does."""
    x, c, turned = constant_binary(op)
    return Scaling(x, c, op.type == "Div" and not turned, op.type == "Div" and turned)


def merge_scalings(g: Build, first: Scaling, second: Scaling) -> Value:
    """The Mul or Div that `first` and then `second` come to."""
    c, d = upcast(first.c), upcast(second.c)
    plain = not (first.is_divisor or first.is_dividend or second.is_divisor or second.is_dividend)
    require(plain or bool(c.all() and d.all()), "a constant is 0")
    with np.errstate(all="ignore"):  # what overflows is declined
        if first.is_divisor and second.is_divisor:
            return g.Div(first.x, downcast_at_full_precision(g, np.asarray(c * d), first.c))
        k = 1 / c if first.is_divisor else c
        k = d / k if second.is_dividend else k / d if second.is_divisor else k * d
    grows = second.is_dividend or bool((np.abs(k) >= np.abs(c)).all())
    require(not first.is_dividend or grows, "c / x may overflow before the outer op scales it down")
    made = downcast_at_full_precision(g, np.asarray(k), first.c)
    return g.Mul(first.x, made) if first.is_dividend == second.is_dividend else g.Div(made, first.x)


MERGE_CONSTANT_OPERANDS = RulePass(
    "merge-constant-operands",
    (
        merge_added_integers,
        merge_integer_factors,
        merge_integer_divisors,
        merge_added_constants,
        merge_constant_factors,
        factor_out_constant,
    ),
)
