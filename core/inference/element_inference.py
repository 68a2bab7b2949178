"""Inference of the elements of small integer and boolean tensors, as expressions of the model's symbols.

Integers count as unbounded; elements outside the range of their type are not tracked. Booleans are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from ..errors import Declined, require
from ..ir.dims import as_integers
from ..ir.expressions import (
    SymInt,
    add,
    expr_size,
    floor_divide,
    is_known_le,
    is_known_nonnegative,
    maximum,
    minimum,
    multiply,
    prod,
    subtract,
)
from ..ir.op import Op
from ..ir.tensor import MAX_TRACKED_ELEMENTS, TRACKED_DTYPES
from ..ir.values import Value
from .input_queries import (
    PartialElements,
    input_dims,
    input_elements,
    input_shape,
    integer_list,
    normalized_axis,
    recorded_elements,
    slice_bounds,
    slice_range,
)

BinaryFunction = Callable[[SymInt, SymInt], SymInt | None]


def _elementwise(function: Callable[..., SymInt | None]) -> Callable[[Op], list[PartialElements]]:
    """An elementwise operator on broadcast vectors."""

    def apply(op: Op) -> list[PartialElements]:
        operands = [input_elements(op, i) for i in range(len(op.inputs))]
        size = 0 if any(not o for o in operands) else max(map(len, operands))
        require(all(len(o) in {1, size} for o in operands), "its operands do not stretch to each other")
        stretched = [list(o) * size if len(o) == 1 else o for o in operands]
        return [[function(*row) for row in zip(*stretched, strict=True)]]

    return apply


def _binary(function: BinaryFunction) -> Callable[[Op], list[PartialElements]]:
    return _elementwise(function)


def _variadic(function: BinaryFunction) -> Callable[..., SymInt | None]:
    def of_all(first: SymInt, *others: SymInt) -> SymInt | None:
        out: SymInt | None = first
        for x in others:
            out = None if out is None else function(out, x)
        return out

    return of_all


def _truncated_divide(a: SymInt, b: SymInt) -> SymInt | None:
    """Div of integers, which rounds towards zero: floor division where nothing is negative."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return floor_divide(a, b) if is_known_nonnegative(a) and is_known_nonnegative(b) else None


def _remainder(a: SymInt, b: SymInt) -> SymInt | None:
    """Mod, with and without fmod: both agree where nothing is negative."""
    quotient = _truncated_divide(a, b) if is_known_nonnegative(a) and is_known_nonnegative(b) else None
    return None if quotient is None else subtract(a, multiply(quotient, b))


def _absolute(x: SymInt) -> SymInt | None:
    return abs(x) if isinstance(x, int) else x if is_known_nonnegative(x) else None


def _negate(x: SymInt) -> SymInt:
    return multiply(x, -1)


def _less(a: SymInt, b: SymInt) -> int | None:
    if is_known_le(add(a, 1), b):
        return 1
    return 0 if is_known_le(b, a) else None


def _equal(a: SymInt, b: SymInt) -> int | None:
    if a == b:
        return 1
    return 0 if 1 in {_less(a, b), _less(b, a)} else None


def _not(x: SymInt | None) -> SymInt | None:
    return 1 - x if isinstance(x, int) else None


def _and(a: SymInt, b: SymInt) -> SymInt | None:
    if 0 in {a, b}:
        return 0
    return a if b == 1 else b if a == 1 else None


def _or(a: SymInt, b: SymInt) -> SymInt | None:
    if 1 in {a, b}:
        return 1
    return a if b == 0 else b if a == 0 else None


def _where(condition: SymInt, a: SymInt, b: SymInt) -> SymInt | None:
    if a == b:
        return a
    return (a if condition else b) if isinstance(condition, int) else None


def _cast(op: Op) -> list[PartialElements]:
    source = input_elements(op, 0)
    if op.outputs[0].recorded_type[0] != onnx.TensorProto.BOOL:
        return [source]
    return [[int(x != 0) if isinstance(x, int) else 1 if is_known_le(1, x) else None for x in source]]


def _reduction(
    function: Callable[[SymInt, SymInt], SymInt], identity: SymInt | None = None
) -> Callable[[Op], list[PartialElements]]:
    """A reduction of a vector over its one axis."""

    def apply(op: Op) -> list[PartialElements]:
        source, axes = input_elements(op, 0), integer_list(op, "axes")
        over_it = not op.attr("noop_with_empty_axes", 0) if not axes else axes in ([0], [-1])
        require(len(input_shape(op)) == 1 and over_it, "it reduces nothing")
        out = source[0] if source else identity
        if out is None:
            raise Declined("there is nothing to reduce")
        for x in source[1:]:
            out = function(out, x)
        return [[out]]

    return apply


ELEMENT_ARITHMETIC: dict[str, Callable[[Op], list[PartialElements]]] = {
    "Cast": _cast,
    "Add": _elementwise(add),
    "Sub": _elementwise(subtract),
    "Mul": _elementwise(multiply),
    "Div": _elementwise(_truncated_divide),
    "Mod": _elementwise(_remainder),
    "Neg": _elementwise(_negate),
    "Abs": _elementwise(_absolute),
    "Min": _elementwise(_variadic(minimum)),
    "Max": _elementwise(_variadic(maximum)),
    "Sum": _elementwise(_variadic(add)),
    "Equal": _elementwise(_equal),
    "Less": _elementwise(_less),
    "Greater": _binary(lambda a, b: _less(b, a)),
    "LessOrEqual": _binary(lambda a, b: _not(_less(b, a))),
    "GreaterOrEqual": _binary(lambda a, b: _not(_less(a, b))),
    "And": _elementwise(_and),
    "Or": _elementwise(_or),
    "Not": _elementwise(_not),
    "Where": _elementwise(_where),
    "ReduceProd": _reduction(multiply, 1),
    "ReduceSum": _reduction(add, 0),
    "ReduceMax": _reduction(maximum),
    "ReduceMin": _reduction(minimum),
}


def _shape(op: Op) -> list[PartialElements]:
    """Shape, with start and end since opset 15."""
    return [input_shape(op)[slice(int(op.attr("start", 0)), op.attr("end"))]]


def _concat(op: Op) -> list[PartialElements]:
    out: list[SymInt | None] = []
    for i, v in enumerate(op.inputs):
        found = recorded_elements(v) if v is not None else None
        if found is None:
            (extent,) = input_shape(op, i)
            if not isinstance(extent, int) or extent > MAX_TRACKED_ELEMENTS:
                raise Declined("a piece is too long")
            found = [None] * extent
        out += found
    return [out]


def _constant_indices(op: Op) -> list[int]:
    indices = op.input(1)
    if indices is None or indices.tensor is None:
        raise Declined("the indices are computed")
    return [int(i) for i in indices.const.reshape(-1)]


def _gather(op: Op) -> list[PartialElements]:
    source, places = input_elements(op, 0), _constant_indices(op)
    require(all(-len(source) <= i < len(source) for i in places), "an index is out of range")
    return [[source[i] for i in places]]


def _slice(op: Op) -> list[PartialElements]:
    source = input_elements(op, 0)
    start, end, step = slice_bounds(op, 1).get(0, (0, len(source), 1))
    if not isinstance(start, int) or not isinstance(end, int):
        raise Declined("its bounds are computed")
    run = slice_range(len(source), start, end, step)
    if run is None:
        raise Declined("ONNX and onnxruntime disagree on its end")
    return [[source[i] for i in run]]


def _split(op: Op) -> list[PartialElements]:
    source, at, out = input_elements(op, 0), 0, list[PartialElements]()
    for v in op.outputs:
        shape = v.recorded_type[1]
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int):
            raise Declined("the pieces are not known")
        out.append(source[at : at + shape[0]])
        at += shape[0]
    return out


def _output_size(op: Op) -> int:
    """The number of elements of the first output."""
    numbers = as_integers(op.outputs[0].recorded_type[1] or ())
    if numbers is None:
        raise Declined("its extent is unknown")
    return numbers[0] if numbers else 1


def _constant_of_shape(op: Op) -> list[PartialElements]:
    fill = op.attr("value")
    return [[0 if fill is None else int(fill.array.reshape(-1)[0])] * _output_size(op)]


def _repeat(op: Op) -> list[PartialElements]:
    """Expand and Tile."""
    source, extent = input_elements(op, 0), _output_size(op)
    require(len(source) > 0, "there is nothing to repeat")
    return [list(source) * (extent // len(source))]


def _range(op: Op) -> list[PartialElements]:
    (start,), (step,) = input_elements(op, 0), input_elements(op, 2)
    return [[add(start, multiply(step, i)) for i in range(_output_size(op))]]


def _scatter(op: Op) -> list[PartialElements]:
    """ScatterND and ScatterElements into a vector, at constant indices, each at most once."""
    source, updates, at = list(input_elements(op, 0)), input_elements(op, 2), _constant_indices(op)
    require(op.attr("reduction", "none") == "none" and normalized_axis(op, 1) == 0, "it reduces")
    require(len(at) == len(updates) and all(-len(source) <= i < len(source) for i in at), "an index is out of range")
    require(len({i % len(source) for i in at}) == len(at), "an index occurs twice")
    for i, x in zip(at, updates, strict=True):
        source[i] = x
    return [source]


ELEMENT_DATA_MOVEMENT: dict[str, Callable[[Op], list[PartialElements]]] = {
    **dict.fromkeys(
        ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Identity"), lambda op: [input_elements(op, 0)]
    ),
    **dict.fromkeys(("Expand", "Tile"), _repeat),
    **dict.fromkeys(("ScatterND", "ScatterElements"), _scatter),
    "Shape": _shape,
    "Size": lambda op: [[prod(input_dims(op))]],
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
}


INTEGER_LIMITS: dict[int, int] = {
    onnx.TensorProto.INT64: 1 << 63,
    onnx.TensorProto.INT32: 1 << 31,
    onnx.TensorProto.BOOL: 2,
}
MAX_EXPR_SIZE = 200
"""Atoms and factors of the largest expression that is tracked."""
ELEMENT_FUNCTIONS: dict[str, Callable[[Op], list[PartialElements]]] = {**ELEMENT_DATA_MOVEMENT, **ELEMENT_ARITHMETIC}


def infer_elements(op: Op) -> list[PartialElements]:
    """The elements of each output of `op`, whose shapes are known already; [] if nothing is known."""
    rule = ELEMENT_FUNCTIONS.get(op.type) if not op.domain else None
    if rule is None:
        return []
    try:
        found = rule(op)
    except Declined:
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
        limit = INTEGER_LIMITS[of.recorded_type[0]]
        return x if -limit <= x < limit else None
    return x if x is None or expr_size(x) <= MAX_EXPR_SIZE else None
