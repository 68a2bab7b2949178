"""z3 elements as cells of arrays, with which the meanings of operators compute."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from msgspec import Struct
from onnx import helper

from ..operators.object_array import NotSupported
from .obligation import NotApplicable
from .smt_functions import PAIR_STATEMENTS, STATEMENTS, Functions
from .smt_terms import BOOL, COMPARISONS, REAL, TRUE, Arithmetic, Element, Kind, Operation, Term, all_of, either, z3

MAX_EXPONENT = 16  # a power with a whole exponent up to this is a product
NAMED_FUNCTIONS = frozenset(STATEMENTS) | frozenset(PAIR_STATEMENTS) | {
    "arccos", "arccosh", "arcsin", "arcsinh", "arctanh",
}  # fmt: skip
"""The functions of one real number that stay uninterpreted."""
TRUTH_VALUED = COMPARISONS | {"isinf", "isnan"}
DECIDED: Mapping[str, bool] = {"logical_and": False, "logical_or": True, "bitwise_and": False, "bitwise_or": True}
"""The truth value that determines an operation whatever the other operand is."""


class TermDomain(Struct, frozen=True):
    """The operations on elements in one node, whose floats are of `float_kind`. Cells may be plain numbers."""

    arithmetic: Arithmetic
    functions: Functions
    float_kind: Kind

    def kind(self, dtype: np.dtype[Any]) -> Kind:
        """The kind of a NumPy type. All floats are float64, as in meanings."""
        return self.float_kind if dtype.kind == "f" else self.arithmetic.kind(helper.np_dtype_to_tensor_dtype(dtype))

    def element(self, cell: Any, kind: Kind) -> Element:
        """The element of a cell. A Python float is an attribute, or a constant of a formula."""
        if isinstance(cell, Element):
            return cell
        if kind is REAL and isinstance(cell, float) and float(np.float32(cell)) == cell:
            cell = np.float32(cell)
        return Element(kind.constant(cell), kind)

    def apply(self, name: str, dtype: np.dtype[Any], *cells: Any) -> Any:
        """The result of a function of NumPy. Raises NotSupported."""
        kind = self.kind(dtype)
        if kind is BOOL and name in DECIDED:
            return self._connective(name, *cells)
        if kind is REAL and any(isinstance(c, float) and np.isinf(c) for c in cells):
            return _beside_infinity(name, *cells)
        elements = [self.element(c, kind) for c in cells]
        if name in kind.operations:
            return self.operate(name, *elements)
        if kind is REAL and name in NAMED_FUNCTIONS:
            return self._named(name, elements[0])
        if kind is REAL and name == "power":
            return self._power(*elements)
        return self._derived(name, dtype, *elements)

    def operate(self, name: str, *elements: Element) -> Element:
        """The result of an operation on elements of one kind. Raises NotSupported."""
        kind, terms = elements[0].kind, [e.term for e in elements]
        function, domain = operation(kind, name), kind.domains.get(name)
        conditions = [*(e.defined for e in elements), *([domain(*terms)] if domain is not None else ())]
        result = BOOL if name in TRUTH_VALUED else kind
        return Element(function(*terms), result, all_of(*conditions))

    def select(self, condition: Any, a: Any, b: Any, dtype: np.dtype[Any]) -> Any:
        """`a` where the condition holds, otherwise `b`; defined if the chosen cell is."""
        if not isinstance(condition, Element):
            return a if condition else b
        kind = self.kind(dtype)
        return chosen(condition, self.element(a, kind), self.element(b, kind))

    def convert(self, cell: Any, source: np.dtype[Any], target: np.dtype[Any]) -> Element:
        """A cell in another type."""
        return self.converted(self.element(cell, self.kind(source)), self.kind(target))

    def number(self, cell: Any) -> Any:
        """The number of a cell that is not an element. Raises NotSupported for elements."""
        if isinstance(cell, Element):
            raise NotSupported("a place or a decision depends on data")
        return cell

    def knows(self, name: str, dtype: np.dtype[Any]) -> bool:
        """Whether a function stays uninterpreted."""
        return name in NAMED_FUNCTIONS and self.kind(dtype) is REAL

    def converted(self, x: Element, kind: Kind) -> Element:
        """An element converted to another kind, as by Cast.

        Floats are rounded to the nearest, integers wrap around, and floats are truncated to integers if they fit.
        """
        return x if x.kind == kind else Element(self._converted_term(x, kind), kind, x.defined)

    def _connective(self, name: str, *cells: Any) -> Any:
        """A conjunction or disjunction, which one plain operand may determine."""
        plain = [bool(c) for c in cells if not isinstance(c, Element)]
        if DECIDED[name] in plain:
            return DECIDED[name]
        elements = [c for c in cells if isinstance(c, Element)]
        return self.operate(name, *elements) if len(elements) > 1 else elements[0] if elements else plain[0]

    def _derived(self, name: str, dtype: np.dtype[Any], *operands: Element) -> Any:
        """A function of NumPy that follows from others."""
        match name:
            case "expm1":
                return self.apply("subtract", dtype, self.apply("exp", dtype, *operands), 1)
            case "fabs":
                return self.apply("absolute", dtype, *operands)
            case "isfinite" | "not_equal":
                opposite = {"isfinite": "isinf", "not_equal": "equal"}[name]
                return self.apply("logical_not", np.dtype(bool), self.apply(opposite, dtype, *operands))
            case "square":
                return self.apply("multiply", dtype, *operands, *operands)
            case _:
                raise NotSupported(f"{name} of {self.kind(dtype).sort}")

    def _named(self, name: str, x: Element) -> Element:
        """An uninterpreted function of a real number, defined where the real function is."""
        domain = x.kind.domains.get(name)
        inside = domain(x.term) if domain is not None else TRUE
        return Element(self.functions.apply(name, [x.term], x.kind.sort), x.kind, all_of(x.defined, inside))

    def _power(self, x: Element, y: Element) -> Element:
        """X ** y for a constant exponent that is whole or one half; for other exponents, of a positive number."""
        raw = z3.simplify(y.term)
        if not z3.is_rational_value(raw):
            value = self.functions.apply("power", [x.term, raw], x.kind.sort)
            return Element(value, x.kind, all_of(x.defined, y.defined, x.term > 0))
        exponent = Fraction(raw.as_fraction())
        if exponent.denominator == 2 and abs(exponent.numerator) <= MAX_EXPONENT:
            x, exponent = self._named("sqrt", x), exponent * 2
        if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
            value = self.functions.apply(f"power {exponent}", [x.term], x.kind.sort)
            return Element(value, x.kind, all_of(x.defined, x.term > 0))
        product = reduce(lambda a, b: a * b, [x.term] * abs(int(exponent)), z3.RealVal(1))
        if exponent >= 0:
            return Element(product, x.kind, x.defined)
        return Element(1 / product, x.kind, all_of(x.defined, x.term != 0))

    def _converted_term(self, x: Element, kind: Kind) -> Term:
        if x.kind is BOOL and kind is not BOOL:
            return either(x.term, kind.constant(1), kind.constant(0))
        if x.kind.width:
            return _converted_integer(x.term, x.kind, kind)
        if x.kind is REAL or x.kind.dtype:
            return self._converted_float(x, kind)
        raise NotApplicable(f"Cast of {x.kind.sort} to {kind.sort} is not encoded")

    def _converted_float(self, x: Element, kind: Kind) -> Term:
        if kind is BOOL:
            return x.term != 0 if x.kind is REAL else z3.Not(z3.fpIsZero(x.term))
        if kind is REAL:
            return x.term
        if kind.dtype:
            return z3.fpFPToFP(z3.RNE(), x.term, kind.sort)
        if kind.width:
            beyond = self.functions.apply(f"Cast to {kind.width} {kind.signed}", [x.term], kind.sort)
            if x.kind is REAL:
                return beyond
            low, high = integer_range(kind)
            fits = z3.And(z3.fpGT(x.term, x.kind.constant(low - 1)), z3.fpLT(x.term, x.kind.constant(high + 1)))
            if kind.signed and kind.width >= x.kind.sort.sbits():  # low - 1 is rounded to low, which itself fits
                fits = z3.And(z3.fpGEQ(x.term, x.kind.constant(low)), z3.fpLT(x.term, x.kind.constant(high + 1)))
            whole = (z3.fpToSBV if kind.signed else z3.fpToUBV)(z3.RTZ(), x.term, kind.sort)
            if not kind.signed:
                whole = either(z3.fpLEQ(x.term, x.kind.constant(0)), kind.constant(0), whole)
            return either(fits, whole, beyond)
        raise NotApplicable(f"Cast of floats to {kind.sort} is not encoded")


def operation(kind: Kind, name: str) -> Operation:
    """The function on terms with a name from NumPy. Raises NotSupported."""
    if name not in kind.operations:
        raise NotSupported(f"{name} of {kind.sort}")
    return kind.operations[name]


def chosen(condition: Element, a: Element, b: Element) -> Element:
    """`a` where the condition holds, otherwise `b`; defined if the chosen one is."""
    if z3.is_true(condition.term) or z3.is_false(condition.term):
        return a if z3.is_true(condition.term) else b
    defined = a.defined if a.defined is b.defined else either(condition.term, a.defined, b.defined)
    return Element(either(condition.term, a.term, b.term), a.kind, all_of(condition.defined, defined))


def _beside_infinity(name: str, a: Any, b: Any) -> Any:
    """The result of an operation on a real number and a plain infinity. Raises NotSupported for other operands."""
    x, end, is_first = (a, b, True) if isinstance(a, Element) else (b, a, False)
    if not isinstance(x, Element):
        raise NotSupported(f"{name} of infinities")
    if name in {"maximum", "minimum"} and (end < 0) == (name == "maximum"):
        return x
    if name not in COMPARISONS:
        raise NotSupported(f"{name} of an infinity")
    numbers = (0.0, end) if is_first else (end, 0.0)
    return Element(z3.BoolVal(bool(getattr(np, name)(*numbers))), BOOL, x.defined)


def integer_range(kind: Kind) -> tuple[int, int]:
    """The lowest and the highest number."""
    return (-(1 << (kind.width - 1)), (1 << (kind.width - 1)) - 1) if kind.signed else (0, (1 << kind.width) - 1)


def _converted_integer(term: Term, source: Kind, kind: Kind) -> Term:
    if kind is BOOL:
        return term != 0
    if kind is REAL:
        return z3.ToReal(z3.BV2Int(term, is_signed=source.signed))
    if kind.dtype:
        return (z3.fpSignedToFP if source.signed else z3.fpUnsignedToFP)(z3.RNE(), term, kind.sort)
    if kind.width:
        if kind.width <= source.width:
            return z3.Extract(kind.width - 1, 0, term)
        return (z3.SignExt if source.signed else z3.ZeroExt)(kind.width - source.width, term)
    raise NotApplicable(f"Cast of integers to {kind.sort} is not encoded")
