"""Ops with constants that scale and shift each channel: what they multiply by and what they add."""

from __future__ import annotations

import numpy as np

from ...core import Op, Value, require
from ..support.operand_queries import Array
from .convolution import per_channel

AFFINE_OPS = ("Add", "Sub", "Mul", "Div")
Affine = tuple[Array, Array]
"""The k and c of `k * x + c`, in float64; one number each, or one for each channel."""

ONE, ZERO = np.ones(1), np.zeros(1)


def required_affine(op: Op, x: Value, rank: int, channels: int) -> Affine:
    """What an op of ARITHMETIC does to `x`, of so many dims and channels; its other operand is a constant."""
    require(op.version >= 7, "before opset 7 an attribute says how to broadcast")
    c = next((v for v in op.inputs if v is not x and v is not None), None)
    require(c is not None and len(op.inputs) == 2 and x in op.inputs, "it has not one constant operand")
    assert c is not None
    numbers = per_channel(c, rank, channels)
    require(bool(np.isfinite(numbers).all()), f"{c.name} is not finite")
    if op.type == "Add":
        return ONE, numbers
    if op.type == "Sub":
        return (ONE, -numbers) if op.inputs[0] is x else (-ONE, numbers)
    if op.type == "Mul":
        return numbers, ZERO
    require(op.type == "Div" and op.inputs[0] is x, "it is a quotient of a constant")
    with np.errstate(all="ignore"):
        return 1 / numbers, ZERO
