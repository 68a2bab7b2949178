"""Float64 kernels of products of matrices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .kernel_call import Array, Kernel, KernelCall


def _gemm(call: KernelCall, a: Array, b: Array, c: Array | None = None) -> Array:
    left = a.T if call.get("transA") else a
    right = b.T if call.get("transB") else b
    product = left @ right
    if product.dtype != np.float64:
        return product if c is None else product + c
    y = call.get("alpha", 1.0) * product
    return y if c is None else y + call.get("beta", 1.0) * c


def _einsum(call: KernelCall, *inputs: Array) -> Array:
    found: Array = np.einsum(call.get("equation").replace(" ", ""), *inputs, optimize=True)
    return found


def _det(_: KernelCall, x: Array) -> Array:
    return np.asarray(np.linalg.det(x))


KERNELS: Mapping[str, Kernel] = {
    "Det": _det,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": lambda _, a, b: np.asanyarray(np.matmul(a, b)),
}
