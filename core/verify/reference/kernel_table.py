"""The float64 kernels of all operators."""

from __future__ import annotations

from collections.abc import Mapping

from . import (
    attention_kernels,
    contrib_kernels,
    control_kernels,
    elementwise_kernels,
    linear_kernels,
    ml_kernels,
    movement_kernels,
    normalization_kernels,
    quantization_kernels,
    recurrent_kernels,
    reduction_kernels,
    reference_kernels,
    resize_kernels,
    window_kernels,
)
from .kernel_call import Kernel

KERNELS: Mapping[str, Mapping[str, Kernel]] = {
    "": {
        **attention_kernels.KERNELS,
        **contrib_kernels.STANDARD_DOMAIN,
        **control_kernels.KERNELS,
        **elementwise_kernels.KERNELS,
        **linear_kernels.KERNELS,
        **movement_kernels.KERNELS,
        **normalization_kernels.KERNELS,
        **quantization_kernels.KERNELS,
        **recurrent_kernels.KERNELS,
        **reduction_kernels.KERNELS,
        **reference_kernels.KERNELS,
        **resize_kernels.KERNELS,
        **window_kernels.KERNELS,
    },
    "ai.onnx.ml": ml_kernels.KERNELS,
    "com.microsoft": contrib_kernels.KERNELS,
}
"""The kernels by domain and operator."""


def find_kernel(domain: str, op_type: str) -> Kernel | None:
    """The float64 kernel of an operator, or None where there is none."""
    return KERNELS.get(domain, {}).get(op_type)
