"""Operators that onnxruntime adds to those of ONNX, `com.microsoft`."""

from __future__ import annotations

from .conv_pool import conv
from .generator import Site
from .matrix_products import gemm


def fused_matmul(site: Site) -> None:
    """FusedMatMul: of matrices and stacks of them, transposed or not, with a scale."""
    *batch, rows, columns = site.ranked(2, 4)
    inner = site.grower.dim()
    for i, name, shape in ((0, "transA", (rows, inner)), (1, "transB", (inner, columns))):
        swapped = site.parameter(name, lambda: site.choices.below(2), 0)
        site.operand(i, (*batch, *(shape[::-1] if swapped else shape)))
    site.parameter("alpha", lambda: site.choices.pick((2.0, 0.5, 1.0)))


def fused_conv(site: Site) -> None:
    """FusedConv: a Conv and what follows it."""
    site.parameter("activation", lambda: site.choices.pick(("Relu", "Tanh", "Sigmoid")))
    conv(site)


def fused_gemm(site: Site) -> None:
    """FusedGemm: a Gemm and what follows it."""
    site.parameter("activation", lambda: site.choices.pick(("Relu", "Tanh", "Sigmoid")))
    gemm(site)


def biased(site: Site) -> None:
    """BiasGelu and FastGelu: a number for each place along the last axis is added."""
    site.fill(site.main(1, 3).shape[-1:])


def skip_norm(site: Site) -> None:
    """SkipLayerNormalization and its like: of a sum; weights for the last axis."""
    x = site.main(3, 3).shape
    site.operand(1, x)
    site.parameter("epsilon", lambda: site.choices.pick((0.5, 1e-3)))
    site.fill(x[-1:])
