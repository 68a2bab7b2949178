"""Generators for contrib operators of onnxruntime, domain `com.microsoft`."""

from __future__ import annotations

from .conv_pool import conv
from .generator import OpSite
from .matrix_products import gemm


def fused_matmul(site: OpSite) -> None:
    """FusedMatMul: of matrices and stacks of them, transposed or not, with a scale."""
    *batch, rows, columns = site.hinted_shape(2, 4)
    inner = site.generator.draw_dim()
    for i, name, shape in ((0, "transA", (rows, inner)), (1, "transB", (inner, columns))):
        swapped = site.parameter(name, lambda: site.choices.draw_below(2), 0)
        site.operand(i, (*batch, *(shape[::-1] if swapped else shape)))
    site.parameter("alpha", lambda: site.choices.pick((2.0, 0.5, 1.0)))


def fused_conv(site: OpSite) -> None:
    """FusedConv: a Conv and an activation."""
    site.parameter("activation", lambda: site.choices.pick(("Relu", "Tanh", "Sigmoid")))
    conv(site)


def fused_gemm(site: OpSite) -> None:
    """FusedGemm: a Gemm and an activation."""
    site.parameter("activation", lambda: site.choices.pick(("Relu", "Tanh", "Sigmoid")))
    gemm(site)


def bias_gelu(site: OpSite) -> None:
    """BiasGelu and FastGelu: with a bias for the last axis."""
    site.add_remaining_operands(site.first_operand(1, 3).shape[-1:])


def skip_norm(site: OpSite) -> None:
    """SkipLayerNormalization and variants: of a sum, with weights for the last axis."""
    x = site.first_operand(3, 3).shape
    site.operand(1, x)
    site.parameter("epsilon", lambda: site.choices.pick((0.5, 1e-3)))
    site.add_remaining_operands(x[-1:])
