"""Queries on the operands of an op, from recorded facts only; they raise MatchFailure for unknown facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import MatchFailure, require
from ..ir.expressions import Elements, Shape, SymInt, as_integers
from ..ir.op import Op
from ..ir.op_schemas import input_names
from ..ir.values import Value

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
"""Values that mean the end of an axis of unknown extent (operator Slice); no extent reaches the smaller one."""

INVALID_OPERAND_ERRORS = (ArithmeticError, AttributeError, IndexError, TypeError, ValueError)
"""Errors of inference for operands and attributes that the operator does not allow, such as an axis beyond the rank."""

PartialElements = Sequence[SymInt | None]
"""Elements, some of which may be unknown."""


def input_shape(op: Op, index: int = 0) -> Shape:
    """The shape of the input at `index`."""
    value = op.input(index)
    shape = value.recorded_type[1] if value is not None else None
    if shape is None:
        raise MatchFailure("a rank is unknown")
    return shape


def input_dims(op: Op) -> tuple[SymInt, ...]:
    """The dims of the first input, all of which must be known."""
    shape = input_shape(op)
    dims = tuple(d for d in shape if d is not None)
    require(len(dims) == len(shape), "a dim is unknown")
    return dims


def full_perm(perm: Sequence[int] | None, rank: int) -> list[int]:
    """The `perm` of a Transpose with `rank` dims; by default, all axes in reverse order.

    An empty one means the default in onnx.reference.
    """
    return [int(i) for i in perm or range(rank)[::-1]]


def queried_dims(op: Op) -> Shape:
    """The dims that a Shape returns, from `start` to `end`, which are attributes since opset 15."""
    return input_shape(op)[slice(int(op.attr("start", 0)), op.attr("end"))]


def input_elements(op: Op, index: int) -> Elements:
    """The elements of the input at `index`."""
    value = op.input(index)
    found = recorded_elements(value) if value is not None else None
    if found is None:
        raise MatchFailure("its elements are not tracked")
    return found


def recorded_elements(value: Value) -> Elements | None:
    """The elements of a value, if recorded."""
    return value.tensor.elements if value.tensor is not None else value.elements


def attribute_or_input(op: Op, name: str) -> Any:
    """An attribute, or as a Value the input that replaced it in a later opset; None if omitted."""
    spec, names = op.schema, input_names(op.type, op.domain, op.version)
    if spec is not None and name not in spec.attributes and name in names:
        return op.input(names.index(name))
    return op.attr(name)


def list_elements(op: Op, name: str) -> Elements | None:
    """The integers in an attribute or input, symbolic if computed; None if omitted."""
    given = attribute_or_input(op, name)
    if not isinstance(given, Value):
        return None if given is None else tuple(given)
    found = recorded_elements(given)
    if found is None:
        raise MatchFailure(f"{name} are computed")
    return found


def integer_list(op: Op, name: str) -> list[int] | None:
    """Integers such as axes from an attribute, or from the constant input that replaced it; None if omitted."""
    given = list_elements(op, name)
    numbers = as_integers(given) if given is not None else ()
    if numbers is None:
        raise MatchFailure(f"{name} are computed")
    return None if given is None else list(numbers)


def normalized_axis(op: Op, rank: int, default: int = 0) -> int:
    """The axis attribute, counted from the front."""
    axis = int(op.attr("axis", default))
    require(-rank <= axis < rank, f"axis {axis} does not fit rank {rank}")
    return axis % rank


def normalize_axes(axes: list[int], rank: int) -> list[int]:
    """The axes as nonnegative numbers, in their order; duplicates are declined."""
    require(all(-rank <= a < rank for a in axes), f"axes {axes} do not fit rank {rank}")
    found = [a % rank for a in axes]
    require(len(set(found)) == len(found), f"axes {axes} are not distinct")
    return found


def slice_bounds(op: Op, rank: int) -> dict[int, tuple[SymInt, SymInt, int]]:
    """The start, end and step of a Slice by axis (attributes before opset 10, then inputs)."""
    starts, ends = list_elements(op, "starts") or (), list_elements(op, "ends") or ()
    axes, steps = integer_list(op, "axes"), integer_list(op, "steps") or [1] * len(starts)
    axes = list(range(len(starts))) if axes is None else normalize_axes(axes, rank)
    require(len(starts) == len(ends) == len(axes) == len(steps) and 0 not in steps, "its bounds do not fit")
    return {a: (s, e, n) for a, s, e, n in zip(axes, starts, ends, steps, strict=True)}


def pad_amounts(op: Op, rank: int) -> list[SymInt]:
    """The number of elements that a Pad adds before each of `rank` axes, then those after each."""
    amounts = list_elements(op, "paddings" if op.version < 2 else "pads") or ()
    axes = integer_list(op, "axes")
    padded = list(range(rank)) if axes is None else normalize_axes(axes, rank)
    require(len(amounts) == 2 * len(padded), "its pads do not fit the rank")
    found: list[SymInt] = [0 for _ in range(2 * rank)]
    for i, axis in enumerate(padded):
        found[axis], found[axis + rank] = amounts[i], amounts[i + len(padded)]
    return found


def slice_range(extent: int, start: int, end: int, step: int) -> range | None:
    """The indices that a Slice selects (operator Slice); None if ONNX and onnxruntime disagree on the end."""
    if step < 0 and end in {INT32_MAX, INT64_MAX}:  # a number in ONNX, but the open end in onnxruntime
        return None
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    first = min(max(start + extent * (start < 0), 0), high)
    last = min(max(end + extent * (end < 0), low), high)
    return range(first, last, step)
