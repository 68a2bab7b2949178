"""What rules ask about their operands; each question declines where the answer is no."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
from onnx import helper

from ..core import Build, Op, Value, require, same_extent, stretches_to
from .dtypes import EXACT_TYPES, INTEGERS

Array = np.ndarray[Any, Any]


def uniform(c: Value) -> Any:
    """The one number (a NumPy scalar) that all elements of a constant are; at least one element is there."""
    data = c.const
    require(data.size > 0, f"{c.name} is empty")
    first = data.reshape(-1)[0]
    same = data.size == 1 or bool((data == first).all())
    require(same and first == first, f"the elements of {c.name} differ")  # noqa: PLR0124 - a NaN is not itself
    return first


def require_same_shape(c: Value, x: Value) -> None:
    """Broadcasting `c` against `x` has to give the shape of `x`."""
    require(stretches_to(c.shape, x.shape), f"{c.name} of {list(c.shape)} stretches {x.name} of {list(x.shape)}")


def along(c: Value, rank: int, axis: int) -> Array:
    """A constant that broadcasts to `rank` dims and varies along `axis` at most: one number, or one for each index."""
    data = c.const
    require(data.ndim <= rank, f"{c.name} has more than {rank} dims")
    dims = (*[1] * (rank - data.ndim), *data.shape)
    axis %= rank
    require(all(d == 1 for i, d in enumerate(dims) if i != axis), f"{c.name} varies along another axis than {axis}")
    return data.reshape(-1)


def setting_of(op: Op, name: str) -> list[Any] | None:
    """The numbers that an op is given as an attribute, or as the constant input of other opsets; None if not at all."""
    spec = op.schema
    if spec is not None and name in spec.attributes:
        numbers = op.attr(name)
        return None if numbers is None else list(numbers)
    names = [] if spec is None else [i.name for i in spec.inputs]
    value = op.input(names.index(name)) if name in names else None
    return None if value is None else value.const.reshape(-1).tolist()


def axes_of(op: Op, name: str = "axes") -> list[int] | None:
    """The axes of an op, from its attribute or from the constant input of later opsets; None where it has none."""
    axes = setting_of(op, name)
    return None if axes is None else [int(i) for i in axes]


def keeps_shape(op: Op, x: Value) -> bool:
    """Whether the first output of an op has the shape of `x`; declines where one of them is unknown."""
    out = op.outputs[0]
    if len(out.shape) != x.rank or not all(map(same_extent, out.shape, x.shape)):
        return False
    # What an output's dims are called was written by hand, and nothing ever checks it.
    return not op.graph.is_output(out) or all(isinstance(d, int) for d in out.shape)


def is_integer(dtype: int) -> bool:
    """Whether a type is one of the integers that arithmetic is done in."""
    return dtype in INTEGERS


def is_float(value: Value) -> bool:
    """Whether the elements are floating-point numbers, of which zeros may be negative; declines if that is unknown."""
    return value.dtype not in EXACT_TYPES


def normalized(axes: list[int], rank: int) -> list[int]:
    """Axes counted from the front, in order; declines what is out of range or named twice."""
    require(all(-rank <= a < rank for a in axes), f"axes {axes} do not fit rank {rank}")
    counted = sorted(a % rank for a in axes)
    require(len(set(counted)) == len(counted), f"an axis of {axes} is named twice")
    return counted


def is_private(v: Value) -> bool:
    """Whether one op reads a computed value, and nothing else looks at it."""
    home = v.producer.graph if v.producer is not None else None
    return home is not None and len(v.uses) == 1 and not home.is_output(v) and v not in home.pinned


def narrowed(data: Array, kind: np.dtype[Any]) -> Array:
    """Numbers in float64 as `kind`; declines what overflows there, or loses digits that the largest of them has."""
    with np.errstate(all="ignore"):
        narrow = data.astype(kind)
        wide = narrow.astype(np.float64)
        require(bool(np.isfinite(wide).all()), "the new weights overflow")
        lost, most = np.abs(wide - data).max(initial=0), np.abs(data).max(initial=0)
    limits = cast("Any", ml_dtypes.finfo(kind))
    require(bool(lost <= limits.eps * most), "the new weights are too small for their type")
    return narrow


def refilled(g: Build, data: Array, like: Value) -> Value:
    """A constant of numbers in float64 in the element type of `like`; declines what that type cannot hold."""
    return g.const(narrowed(data, helper.tensor_dtype_to_np_dtype(like.dtype)))
