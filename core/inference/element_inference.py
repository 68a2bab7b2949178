"""Inference of the elements of small integer and boolean tensors, as expressions of the model's symbols.

Integers count as unbounded; elements outside the range of their type are not tracked. Booleans are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import onnx

from ..errors import MatchFailure, require
from ..ir import expressions as sym
from ..ir.dims import as_integers
from ..ir.expressions import SymInt, is_known_le, is_known_nonnegative
from ..ir.op import Op
from ..ir.tensor import MAX_TRACKED_ELEMENTS, TRACKED_DTYPES
from ..ir.values import Value
from ..operators.operands import (
    INVALID_OPERAND_ERRORS,
    PartialElements,
    input_dims,
    input_elements,
    input_shape,
    integer_list,
    normalized_axis,
    queried_dims,
    recorded_elements,
    slice_bounds,
    slice_range,
)

BinaryFunction = Callable[[SymInt, SymInt], SymInt | None]
ElementFunction = Callable[[Op], list[PartialElements]]


def _elementwise(function: Callable[..., SymInt | None]) -> ElementFunction:
    """An elementwise operator on broadcast vectors."""

    def apply(op: Op) -> list[PartialElements]:
        operands = [input_elements(op, i) for i in range(len(op.inputs))]
        size = 0 if any(not o for o in operands) else max(map(len, operands))
        require(all(len(o) in {1, size} for o in operands), "its operands do not broadcast")
        stretched = [list(o) * size if len(o) == 1 else o for o in operands]
        return [[function(*row) for row in zip(*stretched, strict=True)]]

    return apply


def _folded(function: BinaryFunction) -> ElementFunction:
    """An elementwise operator that combines its operands, two or more, one after the other."""

    def of_all(first: SymInt, *others: SymInt) -> SymInt | None:
        out: SymInt | None = first
        for x in others:
            out = None if out is None else function(out, x)
        return out

    return _elementwise(of_all)


def _truncated_divide(a: SymInt, b: SymInt) -> SymInt | None:
    """Div of integers, which rounds towards zero: floor division where nothing is negative."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return sym.floor_divide(a, b) if is_known_nonnegative(a) and is_known_nonnegative(b) else None


def _remainder(a: SymInt, b: SymInt) -> SymInt | None:
    """Mod, with and without fmod: both agree where nothing is negative."""
    quotient = _truncated_divide(a, b) if is_known_nonnegative(a) and is_known_nonnegative(b) else None
    return None if quotient is None else sym.subtract(a, sym.multiply(quotient, b))


def _absolute(x: SymInt) -> SymInt | None:
    return abs(x) if isinstance(x, int) else x if is_known_nonnegative(x) else None


def _less(a: SymInt, b: SymInt) -> int | None:
    if is_known_le(sym.add(a, 1), b):
        return 1
    return 0 if is_known_le(b, a) else None


def _equal(a: SymInt, b: SymInt) -> int | None:
    if a == b:
        return 1
    return 0 if 1 in {_less(a, b), _less(b, a)} else None


def _not(x: SymInt | None) -> SymInt | None:
    return 1 - x if isinstance(x, int) else None


def _logical(deciding: int) -> ElementFunction:
    """And or Or: an operand `deciding` gives the result; the other truth value leaves it to the other operand."""

    def of_two(a: SymInt, b: SymInt) -> SymInt | None:
        if deciding in {a, b}:
            return deciding
        return a if b == 1 - deciding else b if a == 1 - deciding else None

    return _folded(of_two)


def _where(condition: SymInt, a: SymInt, b: SymInt) -> SymInt | None:
    if a == b:
        return a
    return (a if condition else b) if isinstance(condition, int) else None


def _cast(op: Op) -> list[PartialElements]:
    source = input_elements(op, 0)
    if op.outputs[0].recorded_type[0] != onnx.TensorProto.BOOL:
        return [source]
    return [[int(x != 0) if isinstance(x, int) else 1 if is_known_le(1, x) else None for x in source]]


def _reduction(function: Callable[[SymInt, SymInt], SymInt], *identity: SymInt) -> ElementFunction:
    """A reduction of a vector over its one axis; of an empty one only where there is an `identity`."""

    def apply(op: Op) -> list[PartialElements]:
        source, axes = input_elements(op, 0), integer_list(op, "axes")
        over_it = not op.attr("noop_with_empty_axes", 0) if not axes else axes in ([0], [-1])
        require(len(input_shape(op)) == 1 and over_it, "it reduces nothing")
        require(source or identity, "there is nothing to reduce")
        return [[reduce(function, source or identity)]]

    return apply


ELEMENT_ARITHMETIC: dict[str, ElementFunction] = {
    "Cast": _cast,
    "Add": _folded(sym.add),
    "Sub": _folded(sym.subtract),
    "Mul": _folded(sym.multiply),
    "Div": _folded(_truncated_divide),
    "Mod": _folded(_remainder),
    "Neg": _elementwise(partial(sym.multiply, -1)),
    "Abs": _elementwise(_absolute),
    "Min": _folded(sym.minimum),
    "Max": _folded(sym.maximum),
    "Sum": _folded(sym.add),
    "Equal": _folded(_equal),
    "Less": _folded(_less),
    "Greater": _folded(lambda a, b: _less(b, a)),
    "LessOrEqual": _folded(lambda a, b: _not(_less(b, a))),
    "GreaterOrEqual": _folded(lambda a, b: _not(_less(a, b))),
    "And": _logical(0),
    "Or": _logical(1),
    "Not": _elementwise(_not),
    "Where": _elementwise(_where),
    "ReduceProd": _reduction(sym.multiply, 1),
    "ReduceSum": _reduction(sym.add, 0),
    "ReduceMax": _reduction(sym.maximum),
    "ReduceMin": _reduction(sym.minimum),
}


def _concat(op: Op) -> list[PartialElements]:
    out: list[SymInt | None] = []
    for i, v in enumerate(op.inputs):
        found = recorded_elements(v) if v is not None else None
        if found is None:
            (extent,) = input_shape(op, i)
            if not isinstance(extent, int) or extent > MAX_TRACKED_ELEMENTS:
                raise MatchFailure("a piece is too long")
            found = [None] * extent
        out += found
    return [out]


def _constant_indices(op: Op, size: int) -> list[int]:
    """The constant second input, as indices of a vector counted from the front."""
    indices = op.input(1)
    if indices is None or indices.tensor is None:
        raise MatchFailure("the indices are computed")
    found = [int(i) for i in indices.const.reshape(-1)]
    require(all(-size <= i < size for i in found), "an index is out of range")
    return [i % size for i in found]


def _gather(op: Op) -> list[PartialElements]:
    source = input_elements(op, 0)
    return [[source[i] for i in _constant_indices(op, len(source))]]


def _slice(op: Op) -> list[PartialElements]:
    source = input_elements(op, 0)
    start, end, step = slice_bounds(op, 1).get(0, (0, len(source), 1))
    if not isinstance(start, int) or not isinstance(end, int):
        raise MatchFailure("its bounds are computed")
    run = slice_range(len(source), start, end, step)
    if run is None:
        raise MatchFailure("ONNX and onnxruntime disagree on its end")
    return [[source[i] for i in run]]


def _split(op: Op) -> list[PartialElements]:
    source, at, out = input_elements(op, 0), 0, list[PartialElements]()
    for v in op.outputs:
        size = _recorded_size(v)
        out.append(source[at : at + size])
        at += size
    return out


def _recorded_size(value: Value) -> int:
    """The number of elements of a value of rank 0 or 1."""
    shape = value.recorded_type[1]
    numbers = None if shape is None else as_integers(shape)
    if numbers is None:
        raise MatchFailure("its extent is unknown")
    return numbers[0] if numbers else 1


def _constant_of_shape(op: Op) -> list[PartialElements]:
    fill = op.attr("value")
    return [[0 if fill is None else int(fill.array.reshape(-1)[0])] * _recorded_size(op.outputs[0])]


def _repeat(op: Op) -> list[PartialElements]:
    """Expand and Tile."""
    source, extent = input_elements(op, 0), _recorded_size(op.outputs[0])
    require(len(source) > 0, "there is nothing to repeat")
    return [list(source) * (extent // len(source))]


def _range(op: Op) -> list[PartialElements]:
    (start,), (step,) = input_elements(op, 0), input_elements(op, 2)
    return [[sym.add(start, sym.multiply(step, i)) for i in range(_recorded_size(op.outputs[0]))]]


def _scatter(op: Op) -> list[PartialElements]:
    """ScatterND and ScatterElements into a vector, at constant indices, each at most once."""
    source, updates = list(input_elements(op, 0)), input_elements(op, 2)
    require(op.attr("reduction", "none") == "none" and normalized_axis(op, 1) == 0, "it reduces")
    indices = _constant_indices(op, len(source))
    require(len(indices) == len(updates) == len(set(indices)), "an index occurs twice")
    for i, x in zip(indices, updates, strict=True):
        source[i] = x
    return [source]


ELEMENT_DATA_MOVEMENT: dict[str, ElementFunction] = {
    **dict.fromkeys(
        ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Identity"), lambda op: [input_elements(op, 0)]
    ),
    **dict.fromkeys(("Expand", "Tile"), _repeat),
    **dict.fromkeys(("ScatterND", "ScatterElements"), _scatter),
    "Shape": lambda op: [queried_dims(op)],
    "Size": lambda op: [[sym.prod(input_dims(op))]],
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
}
ELEMENT_FUNCTIONS = ELEMENT_DATA_MOVEMENT | ELEMENT_ARITHMETIC

INTEGER_LIMITS: dict[int, int] = {
    onnx.TensorProto.INT64: 1 << 63,
    onnx.TensorProto.INT32: 1 << 31,
    onnx.TensorProto.BOOL: 2,
}


def infer_elements(op: Op) -> list[PartialElements]:
    """The elements of each output of `op`, whose shapes are known already; [] if nothing is known."""
    rule = ELEMENT_FUNCTIONS.get(op.type) if not op.domain else None
    if rule is None:
        return []
    try:
        found = rule(op)
    except (MatchFailure, *INVALID_OPERAND_ERRORS):
        return []
    return [[_within_limits(x, v) for x in f] for f, v in zip(found, op.outputs, strict=False)]


def is_tracked(value: Value) -> bool:
    """Whether the elements of a value are tracked: few integers or booleans of rank 0 or 1."""
    dtype, shape = value.recorded_type
    if dtype not in TRACKED_DTYPES or shape is None or len(shape) > 1:
        return False
    return not shape or (isinstance(shape[0], int) and shape[0] <= MAX_TRACKED_ELEMENTS)


def _within_limits(x: SymInt | None, of: Value) -> SymInt | None:
    if isinstance(x, int):
        limit = INTEGER_LIMITS.get(of.recorded_type[0], 0)  # no element fits into a type that is not tracked
        return x if -limit <= x < limit else None
    return x if x is None or sym.is_simple(x) else None
