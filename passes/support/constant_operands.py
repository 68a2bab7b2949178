"""Constants computed from constants: limits of size and of precision."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core import Build, Op, Value, require
from ...core.ir.dtypes import FLOATS
from .operand_queries import Array, require_broadcastable_to, require_numpy_broadcasting

MAX_ADDED_ELEMENTS = 1024  # elements that may be added to the model


class ConstantBinary(NamedTuple):
    """An op of a computed value and a constant; `constant_first` if the constant comes first."""

    x: Value
    c: Value
    constant_first: bool


def constant_binary(op: Op) -> ConstantBinary:
    """The operands of an op of two inputs of which one is constant; declines for any other."""
    require_numpy_broadcasting(op.version)
    require(len(op.inputs) == 2, f"{op.label} does not have two inputs")
    a, b = op.inputs
    require(a is not None and b is not None, f"{op.label} does not have two inputs")
    assert a is not None
    assert b is not None
    require(
        a.is_const != b.is_const, f"{op.label} has {'two constant operands' if a.is_const else 'no constant operand'}"
    )
    return ConstantBinary(b, a, constant_first=True) if a.is_const else ConstantBinary(a, b, constant_first=False)


def require_scalar_or_broadcastable_to(c: Value, x: Value) -> None:
    """As `require_broadcastable_to`, but for a scalar the shape of `x` need not be known."""
    if c.rank > 0:
        require_broadcastable_to(c, x)


def require_bounded_growth(*constants: Value) -> None:
    """Decline a combination that is large, unless a removed constant is as large."""
    shape = np.broadcast_shapes(*(c.static_shape for c in constants))
    size = int(np.prod(shape))
    require(size > 0, "the constants are empty")
    going = max((c.tensor.size for c in constants if c.tensor is not None and len(c.consumers) == 1), default=0)
    require(size <= max(going, MAX_ADDED_ELEMENTS), f"{size} elements would be added")


def upcast(c: Value) -> Array:
    """A constant in float64 if it holds floats, else as it is."""
    return c.const.astype(np.float64) if c.dtype in FLOATS else c.const


def downcast_at_full_precision(g: Build, data: Array, like: Value) -> Value:
    """A constant of the type of `like`; declines floats which that type cannot hold to full precision."""
    if like.dtype not in FLOATS:
        return g.const(data, like=like)
    kind = like.const.dtype
    with np.errstate(all="ignore"):
        held = data.astype(kind)
        size = np.abs(held.astype(np.float64))
    require(bool(np.isfinite(size).all()), "the constant overflows or is not finite")
    tiny = smallest_normal(kind)
    require(bool(((size >= tiny) | (data == 0)).all()), "the constant underflows")
    return g.const(held)


def smallest_normal(kind: np.dtype[Any]) -> float:
    """The smallest number that a float type holds to full precision."""
    if kind.name == "bfloat16":
        return float(np.finfo(np.float32).smallest_normal)
    return float(np.finfo(kind).smallest_normal)
