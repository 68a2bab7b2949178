"""Merging of consecutive sums and products with constants.

`merge-constant-operands`: Merging of consecutive sums, or of consecutive products, with constants.
`merge-affine-chains`: Merging of alternating sums and products with constants into one product and one sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from onnx import TensorProto

from ...core import EXACT, Op, RewriteBuilder, Value, by_dtype, conditional, require, rule
from ...core.ir.dtypes import FLOATS, INTEGERS
from ..support.operand_queries import (
    Array,
    constant_binary,
    downcast_at_full_precision,
    float_limits,
    is_finite,
    require_bounded_growth,
    require_no_rounding,
    require_numpy_broadcasting,
    sum_of_constants,
    upcast,
)

SUMS, PRODUCTS = ("Add", "Sub"), ("Mul", "Div")
MAX_CANCELLATION = 8  # how many times smaller than the constants their sum may be


class AffineStep(NamedTuple):
    """x * scale + offset, with the constant operand that they come from."""

    x: Value
    scale: Array
    offset: Array
    c: Value


class Scaling(NamedTuple):
    """x * c, x / c where it `is_divisor`, or c / x where it `is_dividend`."""

    x: Value
    c: Value
    is_divisor: bool
    is_dividend: bool


Operands = TypeVar("Operands", AffineStep, Scaling)


@rule(
    lambda g, inner, outer: g.one_of(*SUMS)(..., g.one_of(*SUMS)(...) @ inner, ...) @ outer,
    contract=by_dtype(INTEGERS, EXACT),
    group="merge-constant-operands",
)
def merge_added_constants(g: RewriteBuilder, inner: Op, outer: Op) -> Value:
    """(x + c) + d => x + (c + d), c - (d - x) => x + (c - d), and all the like"""
    first, second = chained_operands(affine_step, inner, outer)
    terms = first.offset * second.scale, second.offset
    if first.c.dtype in FLOATS:
        c = sum_of_constants(first.c, *terms)
        # Adding and subtracting a large number is a way to round.
        most = np.maximum(*map(np.abs, terms))
        require(bool((np.abs(c) * MAX_CANCELLATION >= most).all()), "the constants cancel each other")
    else:
        c = terms[0] + terms[1]
    made = downcast_at_full_precision(g, np.asanyarray(c), first.c)
    return g.Add(first.x, made) if first.scale == second.scale else g.Sub(made, first.x)


@rule(
    lambda g, inner, outer: g.one_of(*PRODUCTS)(..., g.one_of(*PRODUCTS)(...) @ inner, ...) @ outer,
    contract=by_dtype(INTEGERS, EXACT),
    group="merge-constant-operands",
)
def merge_constant_factors(g: RewriteBuilder, inner: Op, outer: Op) -> Value:
    """(x * c) * d => x * (c * d), (x * c) / d => x * (c / d), c / (d / x) => x * (c / d), and all the like"""
    first, second = chained_operands(required_scaling, inner, outer)
    return (merge_scalings if first.c.dtype in FLOATS else merge_integer_scalings)(g, first, second)


@rule(
    lambda g, a, b, c, op: g.one_of(*SUMS)(g.Mul(a, g.const(c)), g.Mul(b, g.const(c))) @ op,
    contract=conditional(
        "no sum overflows, and no zero is negative",
        assume=lambda g, a, b: g.And(is_finite(g, g.Add(a, b)), is_finite(g, g.Sub(a, b))),
    ),
    group="merge-constant-operands",
)
def factor_out_constant(g: RewriteBuilder, a: Value, b: Value, c: Value, op: Op) -> Value:
    """(a * c) + (b * c) => (a + b) * c, and so for Sub"""
    require_numpy_broadcasting(g.opset)
    require(a is not b, "both terms are the same product")
    return g.Mul(g.Add(a, b) if op.type == "Add" else g.Sub(a, b), c)


def chained_operands(read: Callable[[Op], Operands], inner: Op, outer: Op) -> tuple[Operands, Operands]:
    """The operands of two ops with a constant each; declines unless `outer` takes the result of `inner` as its x."""
    second = read(outer)
    require(second.x is inner.outputs[0], "the two ops are not chained")
    first = read(inner)
    require_bounded_growth(first.c, second.c)
    return first, second


def required_scaling(op: Op) -> Scaling:
    """Read a Mul or Div with one constant."""
    x, c, constant_first = constant_binary(op)
    return Scaling(x, c, op.type == "Div" and not constant_first, op.type == "Div" and constant_first)


def merge_integer_scalings(g: RewriteBuilder, first: Scaling, second: Scaling) -> Value:
    """Build the Mul for two, or the Div for two with positive divisors."""
    c, d = first.c.const, second.c.const
    require(first[2:] == second[2:] and not first.is_dividend, "integer division truncates between the two ops")
    if first.is_divisor:
        require(int(c.min()) > 0 and int(d.min()) > 0, "the signs differ, so truncation differs")
        require(int(c.max()) * int(d.max()) <= int(np.iinfo(c.dtype).max), "the product overflows")
    product = g.const(c * d, like=first.c)  # products wrap around, as in the two ops
    return g.Div(first.x, product) if first.is_divisor else g.Mul(first.x, product)


def merge_scalings(g: RewriteBuilder, first: Scaling, second: Scaling) -> Value:
    """Build the Mul or Div of floats for `first` and then `second`."""
    c, d = upcast(first.c), upcast(second.c)
    plain = not (first.is_divisor or first.is_dividend or second.is_divisor or second.is_dividend)
    require(plain or bool(c.all() and d.all()), "a constant is 0")
    if first.is_divisor and second.is_divisor:
        return g.Div(first.x, downcast_at_full_precision(g, np.asanyarray(c * d), first.c))
    k = 1 / c if first.is_divisor else c
    smallest = float(float_limits(first.c.const.dtype).smallest_normal)
    require(bool(((np.abs(k) >= smallest) | (k == 0)).all()), "the inner op underflows, which is a way to round")
    k = d / k if second.is_dividend else k / d if second.is_divisor else k * d
    grows = second.is_dividend or bool((np.abs(k) >= np.abs(c)).all())
    require(not first.is_dividend or grows, "c / x may overflow before the outer op scales it down")
    made = downcast_at_full_precision(g, np.asanyarray(k), first.c)
    return g.Mul(first.x, made) if first.is_dividend == second.is_dividend else g.Div(made, first.x)


MAX_CENTRE = 64  # how far from 0, in scaled units, x may be centred: digits of the subtracted offset are lost


@rule(
    lambda g, inner, middle, outer: (
        g.one_of(*SUMS)(..., g.one_of(*PRODUCTS)(..., g.one_of(*SUMS)(...) @ inner, ...) @ middle, ...) @ outer
    ),
    contract=by_dtype(INTEGERS, EXACT),
    group="merge-affine-chains",
)
def merge_sums_around_product(g: RewriteBuilder, inner: Op, middle: Op, outer: Op) -> Value:
    """(x + a) * k + b => x * k + (a * k + b), and the like with Sub and, of floats, with Div"""
    return merge_affine_chain(g, inner, middle, outer)


@rule(
    lambda g, inner, middle, outer: (
        g.one_of(*PRODUCTS)(..., g.one_of(*SUMS)(..., g.one_of(*PRODUCTS)(...) @ inner, ...) @ middle, ...) @ outer
    ),
    contract=by_dtype(INTEGERS, EXACT),
    group="merge-affine-chains",
)
def merge_products_around_sum(g: RewriteBuilder, inner: Op, middle: Op, outer: Op) -> Value:
    """(x * k + b) * m => x * (k * m) + b * m, and the like with Sub and, of floats, with Div"""
    return merge_affine_chain(g, inner, middle, outer)


def merge_affine_chain(g: RewriteBuilder, inner: Op, middle: Op, outer: Op) -> Value:
    """Build one Mul and one Add in place of three ops."""
    last, between, first = affine_step(outer), affine_step(middle), affine_step(inner)
    require(last.x is middle.outputs[0] and between.x is inner.outputs[0], "the ops are not chained")
    floats = first.c.dtype not in INTEGERS
    require(not floats or first.c.dtype in {TensorProto.FLOAT, TensorProto.DOUBLE}, "half precision is too coarse")
    require_bounded_growth(first.c, between.c, last.c)
    moved = first.offset * between.scale  # integers wrap around, here as there; floats that overflow are declined
    scale = first.scale * between.scale * last.scale
    if floats:
        require_no_rounding(*(step.c for step in (first, between, last) if step.offset.any()))
        offset = sum_of_constants(first.c, moved * last.scale, between.offset * last.scale, last.offset)
    else:
        offset = (moved + between.offset) * last.scale + last.offset
    centre = np.maximum(1, np.abs(last.offset)) * MAX_CENTRE if floats else None
    require(centre is None or bool((np.abs(moved) <= centre).all()), "the offset would lose precision")
    scale, offset = (downcast_at_full_precision(g, np.asanyarray(c), first.c) for c in (scale, offset))
    return g.Add(g.Mul(first.x, scale), offset)


def affine_step(op: Op) -> AffineStep:
    """Read an op with one constant as an affine function of the other; declines c / x, and quotients of integers."""
    x, c, constant_first = constant_binary(op)
    number = upcast(c)
    one, zero = np.ones((), number.dtype), np.zeros((), number.dtype)
    if op.type == "Mul":
        return AffineStep(x, number, zero, c)
    if op.type == "Div":
        require(not constant_first and c.dtype not in INTEGERS, "it is not a multiplication by a constant")
        return AffineStep(x, 1 / number, zero, c)
    if op.type == "Sub" and constant_first:
        return AffineStep(x, np.negative(one), number, c)
    return AffineStep(x, one, np.negative(number) if op.type == "Sub" else number, c)
