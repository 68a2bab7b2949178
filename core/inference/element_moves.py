"""Elements that are taken from elsewhere: from a shape, or from other tensors."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import Declined, require
from ..ir.dims import in_numbers
from ..ir.expressions import add, multiply, total
from ..ir.op import Op
from ..ir.tensor import MOST_ELEMENTS
from ..ir.terms import Known
from .operands import Found, axis_of, dims_at, elements_at, elements_in, shape_at, slice_bounds, taken


def _shape(op: Op) -> list[Found]:
    """Shape, with start and end since opset 15."""
    return [shape_at(op)[slice(int(op.attr("start", 0)), op.attr("end"))]]


def _size(op: Op) -> list[Found]:
    return [[total(dims_at(op))]]


def _same(op: Op) -> list[Found]:
    """What keeps the order of a vector or less."""
    return [elements_at(op, 0)]


def _concat(op: Op) -> list[Found]:
    out: list[Known | None] = []
    for i, v in enumerate(op.inputs):
        found = elements_in(v) if v is not None else None
        if found is None:
            (extent,) = shape_at(op, i)
            require(isinstance(extent, int) and extent <= MOST_ELEMENTS, "a piece is too long")
            assert isinstance(extent, int)
            found = [None] * extent
        out += found
    return [out]


def _gather(op: Op) -> list[Found]:
    source, indices = elements_at(op, 0), op.input(1)
    require(indices is not None and indices.tensor is not None, "the indices are computed")
    assert indices is not None
    places = [int(i) for i in indices.const.reshape(-1)]
    require(all(-len(source) <= i < len(source) for i in places), "an index is out of range")
    return [[source[i] for i in places]]


def _slice(op: Op) -> list[Found]:
    source = elements_at(op, 0)
    start, end, step = slice_bounds(op, 1).get(0, (0, len(source), 1))
    require(isinstance(start, int) and isinstance(end, int), "its bounds are computed")
    assert isinstance(start, int)
    assert isinstance(end, int)
    run = taken(len(source), start, end, step)
    if run is None:
        raise Declined("where it ends is disputed")
    return [[source[i] for i in run]]


def _split(op: Op) -> list[Found]:
    source, at, out = elements_at(op, 0), 0, list[Found]()
    for v in op.outputs:
        shape = v.stated[1]
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int):
            raise Declined("the pieces are not known")
        out.append(source[at : at + shape[0]])
        at += shape[0]
    return out


def _extent(op: Op) -> int:
    """How many elements the first output has."""
    numbers = in_numbers(op.outputs[0].stated[1] or ())
    require(numbers is not None, "its extent is not known")
    return numbers[0] if numbers else 1


def _filled(op: Op) -> list[Found]:
    fill = op.attr("value")
    return [[0 if fill is None else int(fill.array.reshape(-1)[0])] * _extent(op)]


def _repeated(op: Op) -> list[Found]:
    """Expand and Tile."""
    source, extent = elements_at(op, 0), _extent(op)
    require(len(source) > 0, "there is nothing to repeat")
    return [list(source) * (extent // len(source))]


def _range(op: Op) -> list[Found]:
    (start,), (step,) = elements_at(op, 0), elements_at(op, 2)
    return [[add(start, multiply(step, i)) for i in range(_extent(op))]]


def _scattered(op: Op) -> list[Found]:
    """ScatterND and ScatterElements into a vector, at constant places, each once."""
    source, updates, places = list(elements_at(op, 0)), elements_at(op, 2), op.input(1)
    require(places is not None and places.tensor is not None, "the places are computed")
    assert places is not None
    at = [int(i) for i in places.const.reshape(-1)]
    require(op.attr("reduction", "none") == "none" and axis_of(op, 1) == 0, "it does more than to put")
    require(len(at) == len(updates) and all(-len(source) <= i < len(source) for i in at), "a place is out of range")
    require(len({i % len(source) for i in at}) == len(at), "a place is taken twice")
    for i, x in zip(at, updates, strict=True):
        source[i] = x
    return [source]


MOVES: dict[str, Callable[[Op], list[Found]]] = {
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Identity"), _same),
    **dict.fromkeys(("Expand", "Tile"), _repeated),
    **dict.fromkeys(("ScatterND", "ScatterElements"), _scattered),
    "Shape": _shape,
    "Size": _size,
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "ConstantOfShape": _filled,
    "Range": _range,
}
