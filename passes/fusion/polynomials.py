"""Expressions read as polynomials, and their coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from onnx import helper

from ...core import MatchFailure, Op, Value, broadcasts_to, require
from ...core.ir.dtypes import CPU_FLOATS
from ..support.operand_queries import BROADCASTING_OPSET, has_n_consumers, is_rounding, required_scalar, varying_inputs

MAX_DEPTH = 5  # of the expressions read: 0.8 * (x + 0.04 * x * (x * x)) has that many operators on its longest way
MAX_TERMS = 4
LINEAR_OPS = frozenset({"Add", "Sum", "Sub", "Mul", "Div", "Neg"})
POLYNOMIAL_OPS = LINEAR_OPS | {"Pow"}


def require_dtype(x: Value, dtypes: frozenset[int]) -> None:
    """`x` has one of the element types that onnxruntime runs an operator for."""
    require(x.dtype in dtypes, f"onnxruntime has no kernel for the type of {x.name}")


def scalar_constant(c: Value, x: Value) -> float:
    """The number that a constant of one element is, where broadcasting it against `x` gives the shape of `x`."""
    require(c.is_const and all(d == 1 for d in c.shape), f"{c.name} is not a constant of one element")
    require(c.shape == () or broadcasts_to(c.shape, x.shape), f"{c.name} has more dims than {x.name}")
    return float(required_scalar(c))


def is_close(got: float, want: float, x: Value, ulps: int = 1) -> bool:
    """Whether two numbers are the same to the precision of `x`."""
    require_dtype(x, CPU_FLOATS)
    eps = float(np.finfo(helper.tensor_dtype_to_np_dtype(x.dtype)).eps)
    return abs(got - want) <= ulps * eps * abs(want)


def require_scalar(c: Value, want: float, x: Value) -> None:
    """`c` is the constant `want`, to the precision of `x`, and does not stretch it."""
    require(is_close(scalar_constant(c, x), want, x), f"{c.name} is not {want}")


def require_polynomial(v: Value, x: Value, want: Sequence[float]) -> None:
    """`v` is the polynomial of `x` with these coefficients, the constant one first, to the precision of `x`."""
    got = polynomial_coefficients(v, x)
    same = len(got) == len(want) and all(is_close(a, b, x, ulps=4) for a, b in zip(got, want, strict=True))
    require(same, f"{v.name} is not the expected polynomial of {x.name}")


def linear_coefficient(v: Value, x: Value) -> float:
    """The k with which `v` is `k * x`."""
    got = polynomial_coefficients(v, x)
    require(len(got) == 2 and got[0] == 0, f"{v.name} is not a multiple of {x.name}")
    return got[1]


def polynomial_coefficients(v: Value, x: Value, depth: int = MAX_DEPTH) -> list[float]:
    """The coefficients, lowest first, with which `v` is computed from `x` and constants alone; else declines."""
    if v is x:
        return [0.0, 1.0]
    if v.is_const:
        return [scalar_constant(v, x)]
    op = v.producer
    if op is None or op.domain or not depth or op.type not in POLYNOMIAL_OPS:
        raise MatchFailure(f"{v.name} is not a polynomial of {x.name}")
    require(not is_rounded(op), f"{v.name} is rounded to whole numbers")
    terms = [polynomial_coefficients(i, x, depth - 1) for i in op.inputs if i is not None]
    got = _combine_coefficients(op.type, terms)
    is_cubic = 0 < len(got) <= MAX_TERMS and bool(np.isfinite(got).all())
    require(is_cubic, f"{v.name} is not a cubic polynomial of {x.name}")
    return got


def is_rounded(op: Op) -> bool:
    """Whether an op adds a constant that rounds the other operand."""
    return op.type in {"Add", "Sum", "Sub"} and any(v is not None and is_rounding(v) for v in op.inputs)


def affine_form(v: Value) -> tuple[Value, float, float]:
    """The x, k and b with which `v` is `k * x + b`, by ops that nothing else reads the results of."""
    k, b = 1.0, 0.0
    for _ in range(MAX_DEPTH):
        op = v.producer
        if op is None or op.domain or op.type not in LINEAR_OPS or not has_n_consumers(v):
            break
        moving = varying_inputs(op)
        if len(moving) != 1 or op.version < BROADCASTING_OPSET or is_rounded(op):
            break
        terms = polynomial_coefficients(v, moving[0], 1)
        if len(terms) != 2:
            break
        v, k, b = moving[0], k * terms[1], b + k * terms[0]
    require(k != 0 and bool(np.isfinite([k, b]).all()), "the slope is 0 or too large")
    return v, k, b


def _combine_coefficients(op_type: str, terms: list[list[float]]) -> list[float]:
    poly = np.polynomial.polynomial  # which NumPy imports when it is read
    first, last = terms[0], terms[-1]
    if op_type == "Neg":
        return [-a for a in first]
    if op_type == "Pow":
        require(last in ([2.0], [3.0]), "the exponent is not 2 or 3")
        return poly.polypow(first, int(last[0])).tolist()
    if op_type == "Div":
        require(len(last) == 1 and last[0] != 0, "the divisor is not constant")
        return [a / last[0] for a in first]
    combine = {"Add": poly.polyadd, "Sum": poly.polyadd, "Sub": poly.polysub, "Mul": poly.polymul}[op_type]
    return reduce(combine, terms[1:], np.array(first)).tolist()
