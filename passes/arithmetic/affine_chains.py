"""Constants that are added and multiplied by in turn become one product and one sum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from ...core import EXACT, ROUNDING, Build, Op, RulePass, Value, require, rule
from ...core.rewriting.pattern import OpPattern, Trace, Var
from ..support.constant_operands import binary, narrow, require_affordable, wide
from ..support.operand_queries import Array, Inputs, is_integer

SUMS, PRODUCTS = ("Add", "Sub"), ("Mul", "Div")
CENTRED = 64  # how far from 0, in scaled units, x may be centred: of what is subtracted again, digits are lost


class Step(NamedTuple):
    """x * scale + offset, with the constant operand that they come from."""

    x: Value
    scale: Array
    offset: Array
    c: Value


def sums_around_product(
    g: Trace, b: Var, d: Var, ins: Var, e: Var, a: Var, inner: Var, middle: Var, outer: Var
) -> OpPattern:
    """(x + a) * k + b, in whatever order"""
    return g.one_of(*SUMS)(*b, g.one_of(*PRODUCTS)(*d, g.one_of(*SUMS)(*ins) @ inner, *e) @ middle, *a) @ outer


def products_around_sum(
    g: Trace, b: Var, d: Var, ins: Var, e: Var, a: Var, inner: Var, middle: Var, outer: Var
) -> OpPattern:
    """(x * k + b) * m, in whatever order"""
    return g.one_of(*PRODUCTS)(*b, g.one_of(*SUMS)(*d, g.one_of(*PRODUCTS)(*ins) @ inner, *e) @ middle, *a) @ outer


@rule(sums_around_product, contract=EXACT)
def merge_integer_sums(
    g: Build, b: Inputs, d: Inputs, ins: Inputs, e: Inputs, a: Inputs, inner: Op, middle: Op, outer: Op
) -> Value:
    """Integers' (x + a) * k + b => x * k + (a * k + b)"""
    return collapsed(g, inner, middle, outer, floats=False)


@rule(products_around_sum, contract=EXACT)
def merge_integer_products(
    g: Build, b: Inputs, d: Inputs, ins: Inputs, e: Inputs, a: Inputs, inner: Op, middle: Op, outer: Op
) -> Value:
    """Integers' (x * k + b) * m => x * (k * m) + b * m"""
    return collapsed(g, inner, middle, outer, floats=False)


@rule(sums_around_product, contract=ROUNDING)
def merge_sums_around_product(
    g: Build, b: Inputs, d: Inputs, ins: Inputs, e: Inputs, a: Inputs, inner: Op, middle: Op, outer: Op
) -> Value:
    """(x + a) * k + b => x * k + (a * k + b), and the like with Sub and Div"""
    return collapsed(g, inner, middle, outer, floats=True)


@rule(products_around_sum, contract=ROUNDING)
def merge_products_around_sum(
    g: Build, b: Inputs, d: Inputs, ins: Inputs, e: Inputs, a: Inputs, inner: Op, middle: Op, outer: Op
) -> Value:
    """(x * k + b) * m => x * (k * m) + b * m, and the like with Sub and Div"""
    return collapsed(g, inner, middle, outer, floats=True)


def collapsed(g: Build, inner: Op, middle: Op, outer: Op, *, floats: bool) -> Value:
    """One Mul and one Add in the place of three ops."""
    last, between, first = step(outer), step(middle), step(inner)
    chained = last.x is middle.outputs[0] and between.x is inner.outputs[0]
    require(chained, "the chain ends there")
    kinds = {TensorProto.FLOAT, TensorProto.DOUBLE}
    require(first.c.dtype in kinds if floats else is_integer(first.c.dtype), "another rule's business, or half floats")
    require_affordable(first.c, between.c, last.c)
    with np.errstate(all="ignore"):  # integers wrap around, here as there; floats that overflow are declined
        moved = first.offset * between.scale
        scale = first.scale * between.scale * last.scale
        offset = (moved + between.offset) * last.scale + last.offset
        centre = np.maximum(1, np.abs(last.offset)) * CENTRED if floats else None
    require(centre is None or bool((np.abs(moved) <= centre).all()), "digits would be lost")
    made = narrow(g, np.asarray(scale), first.c), narrow(g, np.asarray(offset), first.c)
    return g.Add(g.Mul(first.x, made[0]), made[1])


def step(op: Op) -> Step:
    """What an op with one constant does to the other operand; declines c / x, and quotients of integers."""
    x, c, turned = binary(op)
    number = wide(c)
    one, zero = np.ones((), number.dtype), np.zeros((), number.dtype)
    if op.type == "Mul":
        return Step(x, number, zero, c)
    with np.errstate(all="ignore"):
        if op.type == "Div":
            require(not turned and not is_integer(c.dtype), "no product")
            return Step(x, 1 / number, zero, c)
        if op.type == "Sub" and turned:
            return Step(x, np.negative(one), number, c)
        return Step(x, one, np.negative(number) if op.type == "Sub" else number, c)


MERGE_AFFINE = RulePass(
    "merge-affine-chains",
    (merge_integer_sums, merge_integer_products, merge_sums_around_product, merge_products_around_sum),
)
