"""Merging of alternating sums and products with constants into one product and one sum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from ...core import EXACT, Build, Op, RulePass, Value, by_dtype, require, rule
from ...core.ir.dtypes import INTEGERS
from ..support.constant_operands import constant_binary, downcast_at_full_precision, require_bounded_growth, upcast
from ..support.operand_queries import Array, is_integer_dtype

MAX_CENTRE = 64  # how far from 0, in scaled units, x may be centred: of what is subtracted again, digits are lost


class AffineStep(NamedTuple):
    """x * scale + offset, with the constant operand that they come from."""

    x: Value
    scale: Array
    offset: Array
    c: Value


@rule(
    lambda g, inner, middle, outer: (
        g.one_of("Add", "Sub")(..., g.one_of("Mul", "Div")(..., g.one_of("Add", "Sub")(...) @ inner, ...) @ middle, ...)
        @ outer
    ),
    contract=by_dtype(INTEGERS, EXACT),
)
def merge_sums_around_product(g: Build, inner: Op, middle: Op, outer: Op) -> Value:
    """(x + a) * k + b => x * k + (a * k + b), and the like with Sub and, of floats, with Div"""
    return merge_affine_chain(g, inner, middle, outer)


@rule(
    lambda g, inner, middle, outer: (
        g.one_of("Mul", "Div")(..., g.one_of("Add", "Sub")(..., g.one_of("Mul", "Div")(...) @ inner, ...) @ middle, ...)
        @ outer
    ),
    contract=by_dtype(INTEGERS, EXACT),
)
def merge_products_around_sum(g: Build, inner: Op, middle: Op, outer: Op) -> Value:
    """(x * k + b) * m => x * (k * m) + b * m, and the like with Sub and, of floats, with Div"""
    return merge_affine_chain(g, inner, middle, outer)


def merge_affine_chain(g: Build, inner: Op, middle: Op, outer: Op) -> Value:
    """Build one Mul and one Add in place of three ops."""
    last, between, first = affine_step(outer), affine_step(middle), affine_step(inner)
    require(last.x is middle.outputs[0] and between.x is inner.outputs[0], "the ops are not chained")
    floats = not is_integer_dtype(first.c.dtype)
    require(not floats or first.c.dtype in {TensorProto.FLOAT, TensorProto.DOUBLE}, "half precision is too coarse")
    require_bounded_growth(first.c, between.c, last.c)
    with np.errstate(all="ignore"):  # integers wrap around, here as there; floats that overflow are declined
        moved = first.offset * between.scale
        scale = first.scale * between.scale * last.scale
        offset = (moved + between.offset) * last.scale + last.offset
        centre = np.maximum(1, np.abs(last.offset)) * MAX_CENTRE if floats else None
    require(centre is None or bool((np.abs(moved) <= centre).all()), "the offset would lose precision")
    scale, offset = (downcast_at_full_precision(g, np.asarray(c), first.c) for c in (scale, offset))
    return g.Add(g.Mul(first.x, scale), offset)


def affine_step(op: Op) -> AffineStep:
    """Read an op with one constant as an affine function of the other; declines c / x, and quotients of integers."""
    x, c, constant_first = constant_binary(op)
    number = upcast(c)
    one, zero = np.ones((), number.dtype), np.zeros((), number.dtype)
    if op.type == "Mul":
        return AffineStep(x, number, zero, c)
    with np.errstate(all="ignore"):
        if op.type == "Div":
            require(not constant_first and not is_integer_dtype(c.dtype), "it is not a multiplication by a constant")
            return AffineStep(x, 1 / number, zero, c)
        if op.type == "Sub" and constant_first:
            return AffineStep(x, np.negative(one), number, c)
        return AffineStep(x, one, np.negative(number) if op.type == "Sub" else number, c)


MERGE_AFFINE_CHAINS = RulePass("merge-affine-chains", (merge_sums_around_product, merge_products_around_sum))
