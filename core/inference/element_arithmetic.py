"""Elements that are computed: arithmetic, comparisons and reductions of integers and booleans."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from ..errors import Declined, require
from ..ir.expressions import add, at_most, floor_divide, larger, least, multiply, smaller, subtract
from ..ir.op import Op
from ..ir.terms import Known
from .operands import Found, elements_at, integers, shape_at

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
