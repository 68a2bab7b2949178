"""Removal of neutral operands, such as 0 in a sum, and folding of absorbing ones, such as 0 in a product."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ...core import EXACT, Build, Op, RulePass, Value, broadcasts_to, require, rule
from ...core.ir.dtypes import FLOATS
from ..support.constant_operands import require_scalar_or_broadcastable_to
from ..support.contracts import NO_NEGATIVE_ZERO
from ..support.operand_queries import Array, is_integer_dtype, require_numpy_broadcasting, uniform_value
from .ort_kernels import MAX_FOLDED_ELEMENTS

INEXACT_POW_TYPES = frozenset({TensorProto.INT64})  # onnxruntime takes them through a double


@rule(
    lambda g, x, c, op: (
        g.one_of(
            "Add", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Sub", "Div", "Pow", "BitShift"
        )(x, g.const(c)) @ op
    ),
    contract=EXACT,
)  # fmt: skip
def drop_neutral_operand(g: Build, x: Value, c: Value, op: Op) -> Value:
    """Add(x, -0), Mul(x, 1), And(x, true), Or or Xor(x, false), Sub(x, 0), Div(x, 1), Pow(x, 1), ... => x"""
    number = neutral_element(op.type, c.dtype)
    require_uniform(op, x, c, number)
    require_zero_sign(c, number)
    require(op.type != "Pow" or x.dtype not in INEXACT_POW_TYPES, "large integers are changed by the op")
    return x


@rule(lambda g, x, c, op: g.one_of("Add", "Sub")(x, g.const(c)) @ op, contract=NO_NEGATIVE_ZERO, fragile=(0.0,))
def drop_added_zero(g: Build, x: Value, c: Value, op: Op) -> Value:
    """Add(x, 0), Sub(x, -0) => x"""
    require_uniform(op, x, c, 0)
    return x


@rule(lambda g, x, c, op: g.one_of("Mul", "And", "Or", "BitwiseAnd", "BitwiseOr")(x, g.const(c)) @ op, contract=EXACT)
def fold_absorbing_operand(g: Build, x: Value, c: Value, op: Op) -> Value:
    """And(x, false), Or(x, true), BitwiseAnd(x, 0), BitwiseOr(x, -1), Mul(integers, 0) => that constant"""
    require(c.dtype not in FLOATS, "x is a float: 0 times NaN or infinity is not 0")
    require_numpy_broadcasting(op.version)
    require(not x.is_const, "both operands are constant")
    number = absorbing_element(op.type, c.dtype)
    require(bool(uniform_value(c) == number), "the constant does not absorb x")
    if broadcasts_to(x.shape, c.shape):
        return c
    shape = np.broadcast_shapes(x.static_shape, c.static_shape)
    require(prod(shape) <= MAX_FOLDED_ELEMENTS, "the constant would be too large")
    return g.const(np.full(shape, number), like=x)


def require_uniform(op: Op, x: Value, c: Value, number: Any) -> None:
    """Decline unless all elements of `c` are that number, and `c` does not change the shape of `x`.

    The first element is compared first: it rules out most operands before shapes are inferred.
    """
    require_numpy_broadcasting(op.version)
    require(not x.is_const, "both operands are constant")
    data: Array = c.const
    require(data.size > 0 and bool(data.reshape(-1)[0] == number), f"{c.name} is not {number}")
    require_scalar_or_broadcastable_to(c, x)
    require(bool((data == number).all()), f"{c.name} is not {number} throughout")


def require_zero_sign(c: Value, number: Any) -> None:
    """Decline if the constant is a floating-point zero of which some element has another sign."""
    if c.dtype in FLOATS and number == 0:
        signs = np.signbit(c.const.astype(np.float64))
        require(bool((signs == np.signbit(number)).all()), "the zero has the wrong sign")


def neutral_element(op_type: str, dtype: int) -> Any:
    """The operand that changes nothing, not even the sign of a zero."""
    if op_type in {"Mul", "Div", "Pow", "And"}:
        return 1
    if op_type == "Add":
        return -0.0 if dtype in FLOATS else 0
    if op_type == "BitwiseAnd":
        return all_ones(dtype)
    return 0.0 if dtype in FLOATS else 0


def absorbing_element(op_type: str, dtype: int) -> Any:
    """The operand that alone determines the result."""
    if op_type == "Or":
        return 1
    return all_ones(dtype) if op_type == "BitwiseOr" else 0


def all_ones(dtype: int) -> int:
    """The integer whose bits are all set."""
    require(is_integer_dtype(dtype), "the operands are not integers")
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    return -1 if limits.min else int(limits.max)


DROP_NEUTRAL_OPERANDS = RulePass(
    "drop-neutral-operands", (drop_neutral_operand, drop_added_zero, fold_absorbing_operand)
)
