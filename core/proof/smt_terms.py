"""Elements of tensors as z3 terms: real numbers, floats bit for bit, integers with overflow, truth values, texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from msgspec import Struct
from onnx import TensorProto

from .obligation import NotApplicable

z3: Any = import_module("z3")
operator: Any = import_module("operator")
Term = Any
"""A z3 expression."""
Operation = Callable[..., Term]
Unary = Callable[[Term], Term]
Binary = Callable[[Term, Term], Term]
TRUE: Term = z3.BoolVal(True)
FALSE: Term = z3.BoolVal(False)
NEAREST: Term = z3.RNE()
FLOAT_SORTS: Mapping[int, tuple[int, int]] = {
    TensorProto.FLOAT: (8, 24), TensorProto.DOUBLE: (11, 53),
    TensorProto.FLOAT16: (5, 11), TensorProto.BFLOAT16: (8, 8),
}  # fmt: skip
"""The bits of exponent and significand of the float types."""
INTEGER_SORTS: Mapping[int, tuple[int, bool]] = {
    TensorProto.INT8: (8, True), TensorProto.INT16: (16, True), TensorProto.INT32: (32, True),
    TensorProto.INT64: (64, True), TensorProto.UINT8: (8, False), TensorProto.UINT16: (16, False),
    TensorProto.UINT32: (32, False), TensorProto.UINT64: (64, False),
}  # fmt: skip
"""The width and the signedness of the integer types."""
COMPARISONS = frozenset({"equal", "greater", "greater_equal", "less", "less_equal"})


@dataclass(frozen=True, slots=True)
class Kind:
    """The terms of an element type, under a unique name; floats have a `dtype`, integers a `width`.

    `operations` returns the function on terms for elementwise functions of NumPy, by name, and `domains` the condition
    under which such a function is defined, if it is not always. `constant` returns the exact term of a number; if the
    kind cannot represent it, it is rounded to the nearest. It raises NotApplicable if there is no such number.
    """

    name: str
    sort: Any = field(compare=False)
    operations: Mapping[str, Operation] = field(compare=False)
    constant: Callable[[Any], Term] = field(compare=False)
    domains: Mapping[str, Operation] = field(default_factory=dict[str, Operation], compare=False)
    dtype: int = 0
    width: int = 0
    signed: bool = False


def either(condition: Term, a: Term, b: Term) -> Term:
    """`a` where `condition` holds, otherwise `b`."""
    return z3.If(condition, a, b)


def _round_half_to_even(x: Term) -> Term:
    below = z3.ToInt(x)
    rest = x - z3.ToReal(below)
    nearest = either(rest == Fraction(1, 2), below + below % 2, either(rest < Fraction(1, 2), below, below + 1))
    return z3.ToReal(nearest)


REAL_FUNCTIONS: Mapping[str, Unary] = {
    "absolute": lambda x: either(x < 0, -x, x),
    "ceil": lambda x: -z3.ToReal(z3.ToInt(-x)),
    "floor": lambda x: z3.ToReal(z3.ToInt(x)),
    "isinf": lambda _: FALSE,
    "isnan": lambda _: FALSE,
    "negative": operator.neg,
    "rint": _round_half_to_even,
    "sign": lambda x: either(x < 0, z3.RealVal(-1), either(x > 0, z3.RealVal(1), z3.RealVal(0))),
}
REAL_OPERATIONS: Mapping[str, Binary] = {
    "add": operator.add,
    "divide": operator.truediv,
    "equal": operator.eq,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "less": operator.lt,
    "less_equal": operator.le,
    "maximum": lambda a, b: either(a < b, b, a),
    "minimum": lambda a, b: either(b < a, b, a),
    "multiply": operator.mul,
    "subtract": operator.sub,
}
REAL_DOMAINS: Mapping[str, Unary] = {
    "arccos": lambda x: z3.And(x >= -1, x <= 1),
    "arccosh": lambda x: x >= 1,
    "arcsin": lambda x: z3.And(x >= -1, x <= 1),
    "arctanh": lambda x: z3.And(x > -1, x < 1),
    "log": lambda x: x > 0,
    "sqrt": lambda x: x >= 0,
}


def _is_nonzero_divisor(_: Term, b: Term) -> Term:
    return b != 0


def _real(number: Any) -> Term:
    if isinstance(number, Fraction):
        return z3.Q(number.numerator, number.denominator)
    if not np.isfinite(number):
        raise NotApplicable(f"the constant {number} is no real number")
    return _real(simplest_fraction(number))


def simplest_fraction(number: Any) -> Fraction:
    """The fraction with the smallest denominator that rounds to a float of its type: 1/10 for the float32 0.1.

    A number of a type other than float32 and float64 is unchanged.
    """
    array: np.ndarray[Any, Any] = np.asarray(number)
    middle = Fraction(float(array)) if array.dtype.kind not in "biu" else Fraction(int(array))
    if middle.denominator == 1 or array.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        return middle
    ends = (np.nextafter(array, array.dtype.type(side)) for side in (-np.inf, np.inf))
    low, high = sorted(abs(Fraction(float(e)) + middle) / 2 for e in ends)
    found = _simplest_between(low, high) * (1 if middle > 0 else -1)
    return found if array.dtype.type(float(found)) == array else middle  # a tie rounds to even


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator between two positive ones (Stern-Brocot tree)."""
    whole = low.numerator // low.denominator
    if whole + 1 <= high or low == whole:
        return Fraction(whole if low == whole else whole + 1)
    return whole + 1 / _simplest_between(1 / (high - whole), 1 / (low - whole))


REAL = Kind(
    "real", z3.RealSort(), {**REAL_FUNCTIONS, **REAL_OPERATIONS}, _real, {**REAL_DOMAINS, "divide": _is_nonzero_divisor}
)
"""Floats as real numbers: no rounding, no NaN, no infinity and only one zero."""


def float_kind(dtype: int) -> Kind:
    """IEEE 754 floats bit for bit, except the bits of NaN; including signs of zero, infinities and rounding."""
    sort = z3.FPSort(*FLOAT_SORTS[dtype])

    def constant(number: Any) -> Term:
        if isinstance(number, Fraction):
            return z3.simplify(z3.fpRealToFP(NEAREST, z3.Q(number.numerator, number.denominator), sort))
        value = float(number)
        if np.isnan(value):
            return z3.fpNaN(sort)
        if np.isinf(value):
            return z3.fpInfinity(sort, value < 0)
        return z3.fpMinusZero(sort) if value == 0 and np.signbit(value) else z3.FPVal(value, sort)

    def sign(x: Term) -> Term:
        return either(z3.fpIsNaN(x), x, either(z3.fpLT(x, zero), minus, either(z3.fpGT(x, zero), one, zero)))

    zero, one, minus = map(constant, (0, 1, -1))
    operations: Mapping[str, Operation] = {
        "absolute": z3.fpAbs,
        "add": partial(z3.fpAdd, NEAREST),
        "ceil": partial(z3.fpRoundToIntegral, z3.RTP()),
        "divide": partial(z3.fpDiv, NEAREST),
        "equal": z3.fpEQ,
        "floor": partial(z3.fpRoundToIntegral, z3.RTN()),
        "greater": z3.fpGT,
        "greater_equal": z3.fpGEQ,
        "isinf": z3.fpIsInf,
        "isnan": z3.fpIsNaN,
        "less": z3.fpLT,
        "less_equal": z3.fpLEQ,
        "multiply": partial(z3.fpMul, NEAREST),
        "negative": z3.fpNeg,
        "rint": partial(z3.fpRoundToIntegral, NEAREST),
        "sign": sign,
        "sqrt": partial(z3.fpSqrt, NEAREST),
        "subtract": partial(z3.fpSub, NEAREST),
    }
    return Kind(TensorProto.DataType.Name(dtype), sort, operations, constant, dtype=dtype)


def integer_kind(width: int, signed: bool) -> Kind:
    """Integers of so many bits, which wrap around. `divide` truncates; `remainder` has the sign of the divisor.

    A division by 0, or of the lowest number by -1, ends the process and is undefined.
    """
    less: Operation = operator.lt if signed else z3.ULT
    at_most: Operation = operator.le if signed else z3.ULE

    def constant(number: Any) -> Term:
        return z3.BitVecVal(int(number), width)

    def divides(a: Term, b: Term) -> Term:
        return z3.And(b != 0, z3.Not(z3.And(a == 1 << (width - 1), b == -1))) if signed else b != 0

    zero, one = map(constant, (0, 1))
    functions: Mapping[str, Unary] = {
        "absolute": lambda x: either(less(x, zero), -x, x),
        "invert": operator.invert,
        "negative": operator.neg,
        "sign": lambda x: either(less(x, zero), -one, either(x == zero, zero, one)),
    }
    operations: Mapping[str, Binary] = {
        "add": operator.add,
        "bitwise_and": operator.and_,
        "bitwise_or": operator.or_,
        "bitwise_xor": operator.xor,
        "divide": operator.truediv if signed else z3.UDiv,
        "equal": operator.eq,
        "fmod": z3.SRem if signed else z3.URem,
        "greater": lambda a, b: less(b, a),
        "greater_equal": lambda a, b: at_most(b, a),
        "less": less,
        "less_equal": at_most,
        "maximum": lambda a, b: either(less(a, b), b, a),
        "minimum": lambda a, b: either(less(b, a), b, a),
        "multiply": operator.mul,
        "remainder": operator.mod if signed else z3.URem,
        "subtract": operator.sub,
    }
    domains: Mapping[str, Operation] = {"divide": divides, "fmod": divides, "remainder": divides}
    name = f"{'' if signed else 'u'}int{width}"
    sort, all_operations = z3.BitVecSort(width), {**functions, **operations}
    return Kind(name, sort, all_operations, constant, domains, width=width, signed=signed)


BOOL_OPERATIONS: Mapping[str, Operation] = {
    "bitwise_and": z3.And,
    "bitwise_or": z3.Or,
    "bitwise_xor": z3.Xor,
    "equal": operator.eq,
    "invert": z3.Not,
    "logical_and": z3.And,
    "logical_not": z3.Not,
    "logical_or": z3.Or,
    "logical_xor": z3.Xor,
}
BOOL = Kind("bool", z3.BoolSort(), BOOL_OPERATIONS, lambda number: z3.BoolVal(bool(number)))
TEXT_SORT = z3.DeclareSort("Text")
TEXT = Kind("text", TEXT_SORT, {"equal": operator.eq}, lambda text: z3.Const(f"text {text!r}", TEXT_SORT))
"""Texts, which can only be compared for equality."""


@dataclass(frozen=True)
class Arithmetic:
    """The interpretation of floats: as real numbers, or bit for bit."""

    over_reals: bool
    kinds: dict[int, Kind] = field(default_factory=dict[int, Kind], compare=False)

    def kind(self, dtype: int) -> Kind:
        """The kind of an element type. Raises NotApplicable for a type without terms."""
        if dtype not in self.kinds:
            self.kinds[dtype] = self._made(dtype)
        return self.kinds[dtype]

    def _made(self, dtype: int) -> Kind:
        if dtype in FLOAT_SORTS:
            return REAL if self.over_reals else float_kind(dtype)
        if dtype in INTEGER_SORTS:
            return integer_kind(*INTEGER_SORTS[dtype])
        if dtype == TensorProto.BOOL:
            return BOOL
        if dtype == TensorProto.STRING:
            return TEXT
        raise NotApplicable(f"elements of type {TensorProto.DataType.Name(dtype)} have no terms")


class Element(Struct, frozen=True):
    """An element of a tensor: a term, and the condition under which it is defined."""

    term: Term
    kind: Kind
    defined: Term = TRUE


def all_of(*conditions: Term) -> Term:
    """The conjunction of conditions, without those that are true."""
    open_ones = list({c.get_id(): c for c in conditions if c is not TRUE}.values())
    if not open_ones:
        return TRUE
    return open_ones[0] if len(open_ones) == 1 else z3.And(*open_ones)
