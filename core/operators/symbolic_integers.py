"""Functions of elements that are expressions of the model's symbols: small integers and booleans of rank 0 or 1.

Integers are treated as unbounded. Booleans are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from ..errors import require
from ..ir import expressions as sym
from ..ir.expressions import SymInt, is_known_le, is_known_nonnegative
from ..ir.op import Op
from .operands import PartialElements, input_elements, input_shape, integer_list

BinaryFunction = Callable[[SymInt, SymInt], SymInt | None]
ElementFunction = Callable[[Op], list[PartialElements]]


def elementwise(function: Callable[..., SymInt | None]) -> ElementFunction:
    """An elementwise operator on broadcast vectors."""

    def apply(op: Op) -> list[PartialElements]:
        operands = [input_elements(op, i) for i in range(len(op.inputs))]
        size = 0 if any(not o for o in operands) else max(map(len, operands))
        require(all(len(o) in {1, size} for o in operands), "its operands do not broadcast")
        stretched = [list(o) * size if len(o) == 1 else o for o in operands]
        return [[function(*row) for row in zip(*stretched, strict=True)]]

    return apply


def folded(function: BinaryFunction) -> ElementFunction:
    """An elementwise operator that combines two or more operands in sequence."""

    def of_all(first: SymInt, *others: SymInt) -> SymInt | None:
        out: SymInt | None = first
        for x in others:
            out = None if out is None else function(out, x)
        return out

    return elementwise(of_all)


def truncated_divide(a: SymInt, b: SymInt) -> SymInt | None:
    """Integer division (Div), rounded towards zero: floor division if nothing is negative."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return sym.floor_divide(a, b) if is_known_nonnegative(a) and is_known_nonnegative(b) else None


def remainder(a: SymInt, b: SymInt) -> SymInt | None:
    """Mod, with and without fmod, which agree if nothing is negative."""
    quotient = truncated_divide(a, b) if is_known_nonnegative(a) and is_known_nonnegative(b) else None
    return None if quotient is None else sym.subtract(a, sym.multiply(quotient, b))


def absolute(x: SymInt) -> SymInt | None:
    """|x|."""
    return abs(x) if isinstance(x, int) else x if is_known_nonnegative(x) else None


def less(a: SymInt, b: SymInt) -> int | None:
    """Whether a < b; None if unknown."""
    if is_known_le(sym.add(a, 1), b):
        return 1
    return 0 if is_known_le(b, a) else None


def equal(a: SymInt, b: SymInt) -> int | None:
    """Whether a == b; None if unknown."""
    if a == b:
        return 1
    return 0 if 1 in {less(a, b), less(b, a)} else None


def negation(x: SymInt | None) -> SymInt | None:
    """The negated truth value."""
    return 1 - x if isinstance(x, int) else None


def logical(deciding: int) -> ElementFunction:
    """And or Or: an operand equal to `deciding` determines the result; otherwise it is the other operand."""

    def of_two(a: SymInt, b: SymInt) -> SymInt | None:
        if deciding in {a, b}:
            return deciding
        return a if b == 1 - deciding else b if a == 1 - deciding else None

    return folded(of_two)


def choice(condition: SymInt, a: SymInt, b: SymInt) -> SymInt | None:
    """`a` if the condition holds, otherwise `b`."""
    if a == b:
        return a
    return (a if condition else b) if isinstance(condition, int) else None


def reduction(function: Callable[[SymInt, SymInt], SymInt], *identity: SymInt) -> ElementFunction:
    """The reduction of a vector over its only axis; an empty one requires an `identity`."""

    def apply(op: Op) -> list[PartialElements]:
        source, axes = input_elements(op, 0), integer_list(op, "axes")
        over_it = not op.attr("noop_with_empty_axes", 0) if not axes else axes in ([0], [-1])
        require(len(input_shape(op)) == 1 and over_it, "it does not reduce the axis")
        require(source or identity, "there is nothing to reduce")
        return [[reduce(function, source or identity)]]

    return apply
