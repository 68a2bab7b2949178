"""Kernels of onnxruntime's CPU provider that take longer than the ops that they replace."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...core import Value, require
from ...core.rewriting.cost_model import CPU

# Measured on [1, 128, 768] beside the ops replaced, in one thread: 1.7 to 15 times as long.
SECONDS_PER_ELEMENT: Mapping[str, float] = MappingProxyType(
    {
        "Elu": 1e-9,
        "LpNormalization": 1.5e-9,
        "PRelu": 4e-9,
        "ReduceL1": 0.6e-9,
        "ReduceLogSum": 0.9e-9,
        "ReduceLogSumExp": 5e-9,
        "ReduceSumSquare": 0.6e-9,
        "Softplus": 10e-9,
    }
)
"""The time for an element of the operand that a kernel takes longer than its parts."""


def require_fast_kernel(op_type: str, x: Value, saved: int) -> None:
    """Decline a kernel that takes longer on `x` than it saves by being one op in place of `saved` + 1."""
    slower = SECONDS_PER_ELEMENT[op_type] * CPU.elements(x)
    require(slower <= saved * CPU.op_seconds, f"{op_type} takes longer than its parts on so many elements")
