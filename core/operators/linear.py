"""Products of matrices."""

from __future__ import annotations

import numpy as np

from ..errors import MatchFailure
from ..ir.expressions import Shape
from ..ir.op import Op
from .broadcasting import broadcast
from .declaration import Family, T
from .element_types import Array
from .operands import (
    input_shape,
)

LINEAR = Family()


@LINEAR.operator("MatMul", T.SAME_DTYPE | T.EMPTY_SAFE | T.SMOOTH | T.RING | T.INTEGER_BITS)
def _matmul(a: Array, b: Array) -> Array:
    return np.matmul(a, b)


@LINEAR.shapes("MatMul")
def _shape_of_matmul(op: Op) -> list[Shape]:
    """MatMul, as numpy.matmul defines it."""
    a, b = input_shape(op), input_shape(op, 1)
    batch = broadcast([a[:-2], b[:-2]])
    if not a or not b or batch is None:
        raise MatchFailure("a factor is a scalar")
    return [(*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))]


@LINEAR.operator("Gemm", T.SAME_DTYPE | T.EMPTY_SAFE | T.SMOOTH)
def gemm(
    a: Array, b: Array, c: Array | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Array:  # fmt: skip
    """`alpha` * a @ b + `beta` * c; integers have no factors."""
    product = (a.T if transA else a) @ (b.T if transB else b)
    if product.dtype != np.float64:
        return product if c is None else product + c
    y = alpha * product
    return y if c is None else y + beta * c


@LINEAR.operator("Einsum", T.SAME_DTYPE | T.RING)
def _einsum(*inputs: Array, equation: str) -> Array:
    found: Array = np.einsum(equation.replace(" ", ""), *inputs, optimize=True)
    return found


@LINEAR.operator("Det", T.SAME_DTYPE)
def _det(x: Array) -> Array:
    return np.asarray(np.linalg.det(x))
