"""MatMul and Gemm read alike, as `alpha * a @ b + beta * c`, and written again."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from onnx import TensorProto

from ...core import Op, RewriteBuilder, Value, require, same_extent
from ...core.ir.dtypes import CPU_FLOATS
from ...core.ir.expressions import Shape
from ..support.operand_queries import (
    Array,
    downcast_constant,
    operand,
    require_no_rounding,
    require_numpy_broadcasting,
    unless_declined,
    values_along_axis,
)

# onnxruntime has Gemm kernels for these alone; an integer Gemm is valid ONNX that nothing runs.
GEMM_TYPES = CPU_FLOATS
PRODUCTS = ("MatMul", "Gemm")


class Product(Struct, frozen=True):
    """A MatMul or Gemm, as `kind` says. `trans_a`, `trans_b`: a factor is a matrix that a Gemm transposes."""

    a: Value
    b: Value
    c: Value | None = None
    alpha: float = 1.0
    beta: float = 1.0
    trans_a: bool = False
    trans_b: bool = False
    kind: str = "MatMul"

    @classmethod
    def of(cls, op: Op) -> Product:
        """Read an op; declines a version whose operands do not broadcast."""
        require_numpy_broadcasting(op.version)
        a, b = operand(op), operand(op, 1)
        if op.type == "MatMul":
            return cls(a, b)
        alpha, beta = float(op.attr("alpha", 1.0)), float(op.attr("beta", 1.0))
        return cls(a, b, op.input(2), alpha, beta, bool(op.attr("transA", 0)), bool(op.attr("transB", 0)), "Gemm")

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of a Gemm that differ from their defaults; declines numbers that they cannot hold."""
        turned = {"transA": self.trans_a, "transB": self.trans_b}
        numbers = {"alpha": self.alpha, "beta": self.beta}
        held = {name: _as_float32(name, n, self.a.dtype) for name, n in numbers.items()}
        return {name: n for name, n in held.items() if n != 1} | {name: 1 for name, turn in turned.items() if turn}

    def build(self, g: RewriteBuilder) -> Value:
        """The op again; a MatMul becomes a Gemm if it has a bias, a scale or a transposed factor."""
        attrs, c = self.attrs, self.c
        require_numpy_broadcasting(g.opset)
        if self.kind == "MatMul":
            if c is None and not attrs:
                return g.MatMul(self.a, self.b)
            require(self.a.rank == self.b.rank == 2, "Gemm multiplies matrices only")
            # Opset 11 made the bias optional.
            c = g.const([0], like=self.a) if c is None and g.opset < 11 else c
        require(self.a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
        return g.Gemm(self.a, self.b, c, **attrs)

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns of constant weights: the sizes of input and output. Does not read them."""
        rows, columns = self.b.static_shape[-2:]
        return (columns, rows) if self.trans_b else (rows, columns)

    @property
    def weights(self) -> Array:
        """Constant weights (..., rows, columns) in float64, times alpha."""
        data = self.b.const.astype(np.float64)
        return (data.T if self.trans_b else data) * self.alpha

    @property
    def bias(self) -> Array | None:
        """The bias in float64, times beta: one number, or one for each column.

        Declines if it differs between rows, or rounds the product.
        """
        require_no_rounding(self.c)
        return None if self.c is None or self.beta == 0 else values_along_axis(self.c, 2, 1) * self.beta

    def with_weights(self, g: RewriteBuilder, x: Value, weights: Array) -> Product:
        """The product of `x` and other weights, with the same bias."""
        return replace(self, a=x, b=downcast_constant(g, weights.T if self.trans_b else weights, self.b), alpha=1.0)

    def with_bias(self, g: RewriteBuilder, bias: Array | None) -> Product:
        """The product with another constant bias, or none."""
        return replace(self, c=None if bias is None else downcast_constant(g, bias, self.b), beta=1.0)

    def left_factor(self, g: RewriteBuilder) -> Value:
        """The first factor, transposed if a Gemm says so."""
        return g.Transpose(self.a, perm=[1, 0]) if self.trans_a else self.a

    def add_bias(self, g: RewriteBuilder, product: Value) -> Value:
        """`product`, the one of the factors and alpha, plus the bias: a constant as one row where it is one."""
        if self.c is None or self.beta == 0:
            return product
        row = unless_declined(lambda: self.bias) if self.c.is_const else None
        if row is not None:
            return g.Add(product, g.const(np.broadcast_to(row, self.extents[1:]), like=self.b))
        return g.Add(product, self.c if self.beta == 1 else g.Mul(self.c, g.const(self.beta, like=self.c)))

    def require_nonempty_sums(self) -> None:
        """Decline unless the sums have terms: onnxruntime's Gemm ignores beta if its sums are empty."""
        require(self.a.rank == 2, "Gemm multiplies matrices only")
        extent = self.a.shape[0 if self.trans_a else 1]
        require(isinstance(extent, int) and extent > 0, "the sums may have no terms")


def _as_float32(name: str, value: float, kind: int) -> float:
    """A number as an attribute of an op of element type `kind` holds it; declines one that is no such number."""
    held = float(np.float32(value))
    fits = np.isfinite(held) and abs(held) >= np.finfo(np.float32).tiny
    require(fits or value == 0, f"{name} of {value} is out of range")
    # The attributes are float32 for operands of any type.
    require(kind != TensorProto.DOUBLE or held == value, f"{name} of {value} would be rounded")
    return held


def weighted_product(op: Op, *, allow_other_uses: bool = False) -> Product:
    """Read a MatMul or Gemm; declines unless its weights are constant and, without `allow_other_uses`, go with it."""
    p, w = Product.of(op), operand(op, 1)
    require(w.is_const and w.rank >= 2, "the weights are not a constant matrix")
    require(w.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    require(allow_other_uses or len(w.consumers) == 1, f"{w.name} is used elsewhere, and would be there twice")
    return p


def require_ort_matmul(left: Shape, right: Shape) -> None:
    """Decline a MatMul that onnxruntime computes wrongly: one that broadcasts empty batches, or has empty sums."""
    alike = len(left) == len(right) and all(map(same_extent, left[:-2], right[:-2]))
    is_full = all(isinstance(d, int) and d > 0 for d in right)
    require(alike or is_full, "the left factor is stretched, and the right one may be empty")
