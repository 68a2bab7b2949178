"""A matrix product and a bias are one Gemm."""

from __future__ import annotations

from ...core import Build, RulePass, Value, broadcasts_to, require, rule
from .weighted_products import GEMM_TYPES


@rule(lambda g, a, b, c: g.Add(g.MatMul(a, b), c))
def matmul_add_to_gemm(g: Build, a: Value, b: Value, c: Value) -> Value:
    """MatMul(a, b) + c => Gemm(a, b, c)"""
    require(g.opset >= 7, "before opset 7 Gemm and Add do not broadcast by rule")
    require(a.rank == b.rank == 2, "Gemm multiplies matrices only")
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    product = (a.shape[0], b.shape[1])
    require(
        broadcasts_to(c.shape, product),
        f"Gemm stretches c to the product only: c is {list(c.shape)}, it {list(product)}",
    )
    return g.Gemm(a, b, c)


FUSE_GEMM = RulePass("fuse-gemm", (matmul_add_to_gemm,))
