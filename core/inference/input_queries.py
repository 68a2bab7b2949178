"""What inference asks of an op's operands, with no inference of its own; what is unknown declines."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import Declined, require
from ..ir.dims import Elements, Shape, in_numbers
from ..ir.expressions import Known
from ..ir.op import Op
from ..ir.op_schemas import input_names
from ..ir.values import Value

LARGEST = (2**31 - 1, 2**63 - 1)
"""Ends of a Slice that stand for none: ONNX reads them as numbers where the step is negative."""

Found = Sequence[Known | None]
"""Elements, some of them unknown."""


def shape_at(op: Op, index: int = 0) -> Shape:
    """The shape of the input at `index`."""
    value = op.input(index)
    shape = value.stated[1] if value is not None else None
    require(shape is not None, "a rank is unknown")
    assert shape is not None
    return shape


def dims_at(op: Op, index: int = 0) -> tuple[Known, ...]:
    """As `shape_at`, where something is known of each dim."""
    shape = shape_at(op, index)
    dims = tuple(d for d in shape if d is not None)
    require(len(dims) == len(shape), "a dim is unknown")
    return dims


def elements_at(op: Op, index: int) -> Elements:
    """The elements of the input at `index`."""
    value = op.input(index)
    found = elements_in(value) if value is not None else None
    if found is None:
        raise Declined("elements are not followed")
    return found


def elements_in(value: Value) -> Elements | None:
    """The elements of a value, as far as they are known by now."""
    return value.tensor.elements if value.tensor is not None else value.elements


def integers(op: Op, name: str) -> list[int] | None:
    """An attribute, or the constant input that took its place, such as axes; None where it is left out."""
    spec = op.schema
    if spec is not None and name in spec.attributes:
        given = op.attr(name)
        return None if given is None else [int(i) for i in given]
    names = input_names(op.type, op.domain, op.version)
    if name not in names or op.input(names.index(name)) is None:
        return None
    numbers = in_numbers(elements_at(op, names.index(name)))
    require(numbers is not None, f"{name} are computed")
    return list(numbers or ())


def axis_of(op: Op, rank: int, default: int = 0) -> int:
    """The axis attribute, counted from the front."""
    axis = int(op.attr("axis", default))
    require(-rank <= axis < rank, f"axis {axis} does not fit rank {rank}")
    return axis % rank


def counted(axes: list[int], rank: int) -> list[int]:
    """Axes counted from the front, in their order, each once."""
    require(all(-rank <= a < rank for a in axes), f"axes {axes} do not fit rank {rank}")
    found = [a % rank for a in axes]
    require(len(set(found)) == len(found), f"an axis of {axes} is named twice")
    return found


def slice_bounds(op: Op, rank: int) -> dict[int, tuple[Known, Known, int]]:
    """Start, end and step of a Slice, by axis (attributes before opset 10, inputs since)."""
    if op.version < 10:
        starts, ends = tuple(op.attr("starts")), tuple(op.attr("ends"))
        axes = op.attr("axes")
        steps = [1] * len(starts)
    else:
        starts, ends = elements_at(op, 1), elements_at(op, 2)
        axes = integers(op, "axes")
        steps = integers(op, "steps") or [1] * len(starts)
    axes = list(range(len(starts))) if axes is None else counted(list(axes), rank)
    require(len(starts) == len(ends) == len(axes) == len(steps) and 0 not in steps, "its bounds do not fit")
    return {a: (s, e, n) for a, s, e, n in zip(axes, starts, ends, steps, strict=True)}


def taken(extent: int, start: int, end: int, step: int) -> range | None:
    """The places that a Slice takes (operator Slice); None where ONNX and onnxruntime do not agree on the end."""
    if step < 0 and end in LARGEST:
        return None
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    first = min(max(start + extent * (start < 0), 0), high)
    last = min(max(end + extent * (end < 0), low), high)
    return range(first, last, step)
