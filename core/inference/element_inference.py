"""Elements that are computed: arithmetic, comparisons and reductions of integers and booleans.

Elements that are taken from elsewhere: from a shape, or from other tensors.

The elements of small integer and boolean tensors, as expressions of the model's symbols.

Integers are taken as unbounded; what leaves the range of its type is not followed. Booleans are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from ..errors import Declined, require
from ..ir.dims import in_numbers
from ..ir.expressions import (
    Known,
    add,
    at_most,
    floor_divide,
    larger,
    least,
    multiply,
    size_of,
    smaller,
    subtract,
    total,
)
from ..ir.op import Op
from ..ir.tensor import COUNTING, MOST_ELEMENTS
from ..ir.values import Value
from .input_queries import Found, axis_of, dims_at, elements_at, elements_in, integers, shape_at, slice_bounds, taken

Work = Callable[[Known, Known], Known | None]


def _elementwise(work: Callable[..., Known | None]) -> Callable[[Op], list[Found]]:
    """An operator on elements that stand opposite each other once their vectors are stretched."""

    def apply(op: Op) -> list[Found]:
        operands = [elements_at(op, i) for i in range(len(op.inputs))]
        size = 0 if any(not o for o in operands) else max(map(len, operands))
        require(all(len(o) in {1, size} for o in operands), "its operands do not stretch to each other")
        stretched = [list(o) * size if len(o) == 1 else o for o in operands]
        return [[work(*row) for row in zip(*stretched, strict=True)]]

    return apply


def _variadic(work: Work) -> Callable[..., Known | None]:
    def of_all(first: Known, *others: Known) -> Known | None:
        out: Known | None = first
        for x in others:
            out = None if out is None else work(out, x)
        return out

    return of_all


def _quotient(a: Known, b: Known) -> Known | None:
    """Div of integers rounds towards zero, which is down where nothing is negative."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return floor_divide(a, b) if _is_natural(a) and _is_natural(b) else None


def _remainder(a: Known, b: Known) -> Known | None:
    """Mod, whichever sign it takes: the same where nothing is negative."""
    quotient = _quotient(a, b) if _is_natural(a) and _is_natural(b) else None
    return None if quotient is None else subtract(a, multiply(quotient, b))


def _is_natural(x: Known) -> bool:
    low = least(x)
    return low is not None and low >= 0


def _absolute(x: Known) -> Known | None:
    return abs(x) if isinstance(x, int) else x if _is_natural(x) else None


def _less(a: Known, b: Known) -> int | None:
    if at_most(add(a, 1), b):
        return 1
    return 0 if at_most(b, a) else None


def _equal(a: Known, b: Known) -> int | None:
    if a == b:
        return 1
    return 0 if 1 in {_less(a, b), _less(b, a)} else None


def _more(a: Known, b: Known) -> int | None:
    return _less(b, a)


def _no_more(a: Known, b: Known) -> Known | None:
    return _not(_less(b, a))


def _no_less(a: Known, b: Known) -> Known | None:
    return _not(_less(a, b))


def _opposite(x: Known) -> Known:
    return multiply(x, -1)


def _not(x: Known | None) -> Known | None:
    return 1 - x if isinstance(x, int) else None


def _both(a: Known, b: Known) -> Known | None:
    if 0 in {a, b}:
        return 0
    return a if b == 1 else b if a == 1 else None


def _either(a: Known, b: Known) -> Known | None:
    if 1 in {a, b}:
        return 1
    return a if b == 0 else b if a == 0 else None


def _chosen(condition: Known, a: Known, b: Known) -> Known | None:
    if a == b:
        return a
    return (a if condition else b) if isinstance(condition, int) else None


def _cast(op: Op) -> list[Found]:
    source = elements_at(op, 0)
    return [list(map(_truth, source)) if op.outputs[0].stated[0] == onnx.TensorProto.BOOL else source]


def _truth(x: Known) -> int | None:
    if isinstance(x, int):
        return int(x != 0)
    return 1 if at_most(1, x) else None


def _reduced(work: Callable[[Known, Known], Known], of_none: Known | None = None) -> Callable[[Op], list[Found]]:
    """A reduction of a vector over its one axis."""

    def apply(op: Op) -> list[Found]:
        source, axes = elements_at(op, 0), integers(op, "axes")
        over_it = not op.attr("noop_with_empty_axes", 0) if not axes else axes in ([0], [-1])
        require(len(shape_at(op)) == 1 and over_it, "it reduces nothing")
        out = source[0] if source else of_none
        if out is None:
            raise Declined("there is nothing to reduce")
        for x in source[1:]:
            out = work(out, x)
        return [[out]]

    return apply


ARITHMETIC: dict[str, Callable[[Op], list[Found]]] = {
    "Cast": _cast,
    "Add": _elementwise(add),
    "Sub": _elementwise(subtract),
    "Mul": _elementwise(multiply),
    "Div": _elementwise(_quotient),
    "Mod": _elementwise(_remainder),
    "Neg": _elementwise(_opposite),
    "Abs": _elementwise(_absolute),
    "Min": _elementwise(_variadic(smaller)),
    "Max": _elementwise(_variadic(larger)),
    "Sum": _elementwise(_variadic(add)),
    "Equal": _elementwise(_equal),
    "Less": _elementwise(_less),
    "Greater": _elementwise(_more),
    "LessOrEqual": _elementwise(_no_more),
    "GreaterOrEqual": _elementwise(_no_less),
    "And": _elementwise(_both),
    "Or": _elementwise(_either),
    "Not": _elementwise(_not),
    "Where": _elementwise(_chosen),
    "ReduceProd": _reduced(multiply, 1),
    "ReduceSum": _reduced(add, 0),
    "ReduceMax": _reduced(larger),
    "ReduceMin": _reduced(smaller),
}


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


LIMITS: dict[int, int] = {onnx.TensorProto.INT64: 1 << 63, onnx.TensorProto.INT32: 1 << 31, onnx.TensorProto.BOOL: 2}
UNWIELDY = 200
"""Atoms and factors of an expression that is not worth its cost any more."""
RULES: dict[str, Callable[[Op], list[Found]]] = {**MOVES, **ARITHMETIC}


def elements_of(op: Op) -> list[Found]:
    """What can be said of the elements of each output of `op`, whose shapes are known already; [] of nothing."""
    rule = RULES.get(op.type) if not op.domain else None
    if rule is None:
        return []
    try:
        found = rule(op)
    except Declined:
        return []
    return [[_handy(x, v) for x in f] for f, v in zip(found, op.outputs, strict=False)]


def is_followed(value: Value) -> bool:
    """Whether the elements of a value are followed: few integers or booleans in rank 0 or 1."""
    dtype, shape = value.stated
    if dtype not in COUNTING or shape is None or len(shape) > 1:
        return False
    return not shape or (isinstance(shape[0], int) and shape[0] <= MOST_ELEMENTS)


def _handy(x: Known | None, of: Value) -> Known | None:
    if isinstance(x, int):
        limit = LIMITS[of.stated[0]]
        return x if -limit <= x < limit else None
    return x if x is None or size_of(x) <= UNWIELDY else None
