"""MatMul and Gemm with constant weights read alike, as `x @ weights + bias`, and written again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from ...core import Op, RewriteBuilder, Value, require, same_extent
from ...core.ir.dims import Shape
from ...core.ir.dtypes import CPU_FLOATS
from ..support.operand_queries import Array, downcast_constant, operand, unless_declined, values_along_axis

# onnxruntime has Gemm kernels for these alone; an integer Gemm is valid ONNX that nothing runs.
GEMM_TYPES = CPU_FLOATS
PRODUCTS = ("MatMul", "Gemm")


@dataclass(frozen=True, slots=True)
class WeightedProduct:
    """A MatMul or Gemm whose second operand is constant; numbers are given in float64."""

    op: Op
    x: Value
    w: Value
    c: Value | None

    @property
    def transposed(self) -> bool:
        """Whether the weights are held as (columns, rows)."""
        return self.op.type == "Gemm" and bool(self.op.attr("transB", 0))

    @property
    def takes_columns(self) -> bool:
        """Whether the columns of x are multiplied with the weights, instead of its rows."""
        return self.op.type == "Gemm" and bool(self.op.attr("transA", 0))

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns of the weights: the sizes of input and output. Does not read them."""
        rows, columns = self.w.static_shape[-2:]
        return (columns, rows) if self.transposed else (rows, columns)

    @property
    def weights(self) -> Array:
        """The weights, (..., rows, columns), times alpha."""
        data = self.w.const.astype(np.float64)
        return (data.T if self.transposed else data) * alpha_or_beta(self.op, "alpha")

    @property
    def bias(self) -> Array | None:
        """The bias times beta: one number, or one for each column. Declines if it differs from row to row."""
        beta = alpha_or_beta(self.op, "beta")
        return None if self.c is None or beta == 0 else values_along_axis(self.c, 2, 1) * beta


def product_of(op: Op, *, allow_other_uses: bool = False) -> WeightedProduct:
    """Read a MatMul or Gemm; declines unless its weights are constant and, without `allow_other_uses`, go with it."""
    x, w = operand(op), operand(op, 1)
    require(op.version >= 7, "before opset 7 Gemm and Add do not broadcast by rule")
    require(w.is_const and w.rank >= 2, "the weights are not a constant matrix")
    require(w.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    require(allow_other_uses or len(w.consumers) == 1, f"{w.name} is used elsewhere, and would be there twice")
    return WeightedProduct(op, x, w, op.input(2))


def rebuild_product(g: RewriteBuilder, p: WeightedProduct, x: Value, weights: Array, bias: Array | None) -> Value:
    """`x @ weights + bias` in the form of `p`; as a Gemm if it was a MatMul and now needs a bias."""
    w = downcast_constant(g, weights.T if p.transposed else weights, p.w)
    if p.op.type == "MatMul" and bias is None:
        return g.MatMul(x, w)
    require(x.rank == w.rank == 2, "Gemm multiplies matrices only")
    c = None if bias is None else downcast_constant(g, bias, p.w)
    return g.Gemm(x, w, c, transA=p.op.attr("transA") or None, transB=1 if p.transposed else None)


def replace_weights(g: RewriteBuilder, p: WeightedProduct, x: Value, weights: Array) -> Value:
    """`p` of `x` with other weights and the same bias."""
    w = downcast_constant(g, weights.T if p.transposed else weights, p.w)
    if p.op.type == "MatMul":
        return g.MatMul(x, w)
    return g.Gemm(x, w, p.c, **gemm_attributes(p.op, alpha=1.0))


def require_ort_matmul(left: Shape, right: Shape) -> None:
    """Decline a MatMul that onnxruntime computes wrongly: one that broadcasts empty batches, or has empty sums."""
    alike = len(left) == len(right) and all(map(same_extent, left[:-2], right[:-2]))
    is_full = all(isinstance(d, int) and d > 0 for d in right)
    require(alike or is_full, "the left factor is stretched, and the right one may be empty")


def alpha_or_beta(gemm: Op, name: str) -> float:
    """Alpha or beta of a Gemm; 1 for a MatMul."""
    return float(gemm.attr(name, 1.0)) if gemm.type == "Gemm" else 1.0


def gemm_attributes(gemm: Op, **changed: float) -> dict[str, Any]:
    """The attributes of a Gemm with some `changed`, as far as they differ from their defaults."""
    numbers = {name: alpha_or_beta(gemm, name) for name in ("alpha", "beta")} | changed
    turned = {name: 1 for name in ("transA", "transB") if gemm.attr(name)}
    kind = gemm.outputs[0].dtype
    return float32_attributes(kind, **numbers) | turned


def float32_attributes(kind: int, **numbers: float) -> dict[str, float]:
    """Alpha and beta as a Gemm of element type `kind` can hold them, without those that are 1."""
    held: dict[str, float] = {}
    for name, value in numbers.items():
        held[name] = float(np.float32(value))
        fits = np.isfinite(held[name]) and abs(held[name]) >= np.finfo(np.float32).tiny
        require(fits or value == 0, f"{name} of {value} is out of range")
        # The attributes are float32 for operands of any type.
        require(kind != TensorProto.DOUBLE or held[name] == value, f"{name} of {value} would be rounded")
    return {name: value for name, value in held.items() if value != 1}


def require_nonempty_sums(a: Value, gemm: Op) -> None:
    """Decline unless the sums of a product of `a` have terms: onnxruntime's Gemm of empty ones forgets beta."""
    extent = a.shape[0 if gemm.attr("transA", 0) else 1]
    require(isinstance(extent, int) and extent > 0, "the sums may have no terms")


def build_gemm(g: RewriteBuilder, a: Value, b: Value, **attrs: Any) -> Value:
    """The product of two matrices as a Gemm without a bias."""
    require(g.opset >= 7, "before opset 7 Gemm does not broadcast by rule")
    require(a.rank == b.rank == 2, "Gemm multiplies matrices only")
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    # Opset 11 made the bias optional.
    return g.Gemm(a, b, None if g.opset >= 11 else g.const([0], like=a), **attrs)


def left_factor(g: RewriteBuilder, p: WeightedProduct) -> Value:
    """The first factor of a product, transposed if a Gemm says so."""
    return g.Transpose(p.x, perm=[1, 0]) if p.takes_columns else p.x


def add_bias(g: RewriteBuilder, p: WeightedProduct, product: Value) -> Value:
    """A product of the factors of `p`, times alpha, plus the bias of `p`: a constant as one row where it is one."""
    beta = alpha_or_beta(p.op, "beta")
    if p.c is None or beta == 0:
        return product
    row = unless_declined(lambda: p.bias) if p.c.is_const else None
    if row is not None:
        return g.Add(product, g.const(np.broadcast_to(row, p.extents[1:]), like=p.w))
    return g.Add(product, p.c if beta == 1 else g.Mul(p.c, g.const(beta, like=p.c)))
