"""Products of matrices."""

from __future__ import annotations

import re

import numpy as np

from ..errors import MatchFailure, require
from ..ir.expressions import Dim, Shape
from ..ir.op import Op
from .broadcasting import broadcast, same_extent
from .declaration import Family, T
from .element_types import Array
from .operands import input_shape

LINEAR = Family()
EQUATION = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*(->[A-Za-z]*)?")  # of Einsum, without an ellipsis


@LINEAR.operator("MatMul", T.SAME_DTYPE | T.EMPTY_SAFE | T.SMOOTH | T.RING | T.INTEGER_BITS)
def _matmul(a: Array, b: Array) -> Array:
    return np.matmul(a, b)


@LINEAR.shapes("MatMul")
def _shape_of_matmul(op: Op) -> list[Shape]:
    return [product_shape(input_shape(op), input_shape(op, 1))]


def product_shape(a: Shape, b: Shape) -> Shape:
    """The shape of a product as numpy.matmul defines it."""
    batch = broadcast([a[:-2], b[:-2]])
    if not a or not b or batch is None:
        raise MatchFailure("an operand is a scalar")
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


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


@LINEAR.shapes("Gemm")
def _shape_of_gemm(op: Op) -> list[Shape]:
    return [(_free_dim(op, 0, is_last=op.attr("transA", 0)), _free_dim(op, 1, is_last=not op.attr("transB", 0)))]


def _free_dim(op: Op, index: int, *, is_last: bool) -> Dim:
    """The dim of an operand that is not summed over; None if the rank is unknown."""
    value = op.input(index)
    shape = value.recorded_type[1] if value is not None else None
    require(shape is None or len(shape) == 2, "an operand is not a matrix")
    return None if shape is None else shape[is_last]


@LINEAR.operator("Einsum", T.SAME_DTYPE | T.RING)
def _einsum(*inputs: Array, equation: str) -> Array:
    found: Array = np.einsum(equation.replace(" ", ""), *inputs, optimize=True)
    return found


@LINEAR.shapes("Einsum")
def _shape_of_einsum(op: Op) -> list[Shape]:
    """The shape for equations without an ellipsis, whose labels stand for equal extents."""
    terms, arrow, result = str(op.attr("equation", "")).replace(" ", "").partition("->")
    labels = terms.split(",")
    require(len(labels) == len(op.inputs) and EQUATION.fullmatch(terms + arrow + result), "its equation is not plain")
    extents: dict[str, Dim] = {}
    for i, term in enumerate(labels):
        for label, extent in zip(term, input_shape(op, i), strict=True):
            require(same_extent(extents.setdefault(label, extent), extent), "a label stands for different extents")
    written = "".join(labels)
    implicit = sorted(label for label in extents if written.count(label) == 1)
    return [tuple(extents[label] for label in (result if arrow else implicit))]


@LINEAR.operator("Det", T.SAME_DTYPE)
def _det(x: Array) -> Array:
    return np.asarray(np.linalg.det(x))
