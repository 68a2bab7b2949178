"""Constants that are added and multiplied by in turn become one product and one sum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from ...core import EXACT, Build, Op, RulePass, Value, require, rule
from ...core.rewriting.pattern import OpPattern, PatternBuilder, Var
from ..support.constant_operands import constant_binary, downcast_at_full_precision, require_bounded_growth, upcast
from ..support.operand_queries import Array, Inputs, is_integer_dtype

SUM_OPS, PRODUCT_OPS = ("Add", "Sub"), ("Mul", "Div")
MAX_CENTRE = 64  # how far from 0, in scaled units, x may be centred: of what is subtracted again, digits are lost


class AffineStep(NamedTuple):
    """x * scale + offset, with the constant operand that they come from."""

    x: Value
    scale: Array
    offset: Array
    c: Value


def sums_around_product(
    g: PatternBuilder, b: Var, d: Var, ins: Var, e: Var, a: Var, inner: Var, middle: Var, outer: Var
) -> OpPattern:
    """(x + a) * k + b, in whatever order"""
    return g.one_of(*SUM_OPS)(*b, g.one_of(*PRODUCT_OPS)(*d, g.one_of(*SUM_OPS)(*ins) @ inner, *e) @ middle, *a) @ outer


def products_around_sum(
    g: PatternBuilder, b: Var, d: Var, ins: Var, e: Var, a: Var, inner: Var, middle: Var, outer: Var
) -> OpPattern:
    """(x * k + b) * m, in whatever order"""
    return (
        g.one_of(*PRODUCT_OPS)(*b, g.one_of(*SUM_OPS)(*d, g.one_of(*PRODUCT_OPS)(*ins) @ inner, *e) @ middle, *a)
        @ outer
    )


@rule(sums_around_product, contract=EXACT)
def merge_integer_sums(
    g: Build, b: Inputs, d: Inputs, ins: Inputs, e: Inputs, a: Inputs, inner: Op, middle: Op, outer: Op
) -> Value:
    """Integers' (x + a) * k + b => x * k + (a * k + b)"""
    return merge_affine_chain(g, inner, middle, outer, floats=False)


@rule(products_around_sum, contract=EXACT)
def merge_integer_products(
    g: Build, b: Inputs, d: Inputs, ins: Inputs, e: Inputs, a: Inputs, inner: Op, middle: Op, outer: Op
) -> Value:
    """Integers' (x * k + b) * m => x * (k * m) + b * m"""
    return merge_affine_chain(g, inner, middle, outer, floats=False)


@rule(sums_around_product)
def merge_sums_around_product(
    g: Build, b: Inputs, d: Inputs, ins: Inputs, e: Inputs, a: Inputs, inner: Op, middle: Op, outer: Op
) -> Value:
    """(x + a) * k + b => x * k + (a * k + b), and the like with Sub and Div"""
    return merge_affine_chain(g, inner, middle, outer, floats=True)


@rule(products_around_sum)
def merge_products_around_sum(
    g: Build, b: Inputs, d: Inputs, ins: Inputs, e: Inputs, a: Inputs, inner: Op, middle: Op, outer: Op
) -> Value:
    """(x * k + b) * m => x * (k * m) + b * m, and the like with Sub and Div"""
    return merge_affine_chain(g, inner, middle, outer, floats=True)


def merge_affine_chain(g: Build, inner: Op, middle: Op, outer: Op, *, floats: bool) -> Value:
    """One Mul and one Add in the place of three ops."""
    last, between, first = affine_step(outer), affine_step(middle), affine_step(inner)
    chained = last.x is middle.outputs[0] and between.x is inner.outputs[0]
    require(chained, "the two ops are not chained")
    kinds = {TensorProto.FLOAT, TensorProto.DOUBLE}
    require(
        first.c.dtype in kinds if floats else is_integer_dtype(first.c.dtype),
        "the element type is not covered by this rule",
    )
    require_bounded_growth(first.c, between.c, last.c)
    with np.errstate(all="ignore"):  # integers wrap around, here as there; floats that overflow are declined
        moved = first.offset * between.scale
        scale = first.scale * between.scale * last.scale
        offset = (moved + between.offset) * last.scale + last.offset
        centre = np.maximum(1, np.abs(last.offset)) * MAX_CENTRE if floats else None
    require(centre is None or bool((np.abs(moved) <= centre).all()), "the offset would lose precision")
    made = (
        downcast_at_full_precision(g, np.asarray(scale), first.c),
        downcast_at_full_precision(g, np.asarray(offset), first.c),
    )
    return g.Add(g.Mul(first.x, made[0]), made[1])


def affine_step(op: Op) -> AffineStep:
    """What an op with one constant does to the other operand; declines c / x, and quotients of integers."""
    x, c, turned = constant_binary(op)
    number = upcast(c)
    one, zero = np.ones((), number.dtype), np.zeros((), number.dtype)
    if op.type == "Mul":
        return AffineStep(x, number, zero, c)
    with np.errstate(all="ignore"):
        if op.type == "Div":
            require(not turned and not is_integer_dtype(c.dtype), "it is not a multiplication by a constant")
            return AffineStep(x, 1 / number, zero, c)
        if op.type == "Sub" and turned:
            return AffineStep(x, np.negative(one), number, c)
        return AffineStep(x, one, np.negative(number) if op.type == "Sub" else number, c)


MERGE_AFFINE_CHAINS = RulePass(
    "merge-affine-chains",
    (merge_integer_sums, merge_integer_products, merge_sums_around_product, merge_products_around_sum),
)
