"""The float64 kernels of all operators."""

from __future__ import annotations

from collections.abc import Mapping

from . import reference_kernels
from .kernel_call import Kernel

STANDARD: Mapping[str, Kernel] = {**reference_kernels.KERNELS}
BY_DOMAIN: Mapping[str, Mapping[str, Kernel]] = {"": STANDARD}


def find_kernel(domain: str, op_type: str) -> Kernel | None:
    """The float64 kernel of an operator, or None where there is none."""
    return BY_DOMAIN.get(domain, {}).get(op_type)
