"""Elements of tensors as z3 terms: real numbers, floats bit for bit, integers with overflow, truth values, texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from onnx import TensorProto

from .obligation import NotApplicable

z3: Any = import_module("z3")
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


class Kind(Protocol):
    """The terms of an element type.

    `operations` gives the function of terms for elementwise functions of NumPy, by name, and `domains` the condition
    under which such a function is defined, for those that are not always.
    """

    @property
    def sort(self) -> Any:
        """The sort of the terms."""
        ...

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The functions of terms by operator."""
        ...

    @property
    def domains(self) -> Mapping[str, Operation]:
        """The conditions of those that are not defined everywhere."""
        ...

    def constant(self, number: Any) -> Term:
        """The term of a number, exactly; it is rounded to the nearest where the kind lacks it."""
        ...


def _plus(a: Term, b: Term) -> Term:
    return a + b


def _minus(a: Term, b: Term) -> Term:
    return a - b


def _times(a: Term, b: Term) -> Term:
    return a * b


def _quotient(a: Term, b: Term) -> Term:
    return a / b


def _remainder(a: Term, b: Term) -> Term:
    return a % b


def _equals(a: Term, b: Term) -> Term:
    return a == b


def _less(a: Term, b: Term) -> Term:
    return a < b


def _at_most(a: Term, b: Term) -> Term:
    return a <= b


def _greater_of(a: Term, b: Term) -> Term:
    return either(a < b, b, a)


def _lesser_of(a: Term, b: Term) -> Term:
    return either(b < a, b, a)


def _is_nonzero_divisor(_: Term, b: Term) -> Term:
    return b != 0


ORDER: Mapping[str, Binary] = {
    "equal": _equals,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": _less,
    "less_equal": _at_most,
}
SIGNED: tuple[Operation, ...] = (_less, _at_most, _quotient, _remainder)
"""The order of bit-vectors, their quotient towards zero, and the remainder with the sign of the divisor."""
UNSIGNED: tuple[Operation, ...] = (z3.ULT, z3.ULE, z3.UDiv, z3.URem)


def either(condition: Term, a: Term, b: Term) -> Term:
    """`a` where `condition` holds, else `b`."""
    return z3.If(condition, a, b)


def _round_half_to_even(x: Term) -> Term:
    below = z3.ToInt(x)
    rest = x - z3.ToReal(below)
    nearest = either(rest == Fraction(1, 2), below + below % 2, either(rest < Fraction(1, 2), below, below + 1))
    return z3.ToReal(nearest)


def _sign_of_real(x: Term) -> Term:
    return either(x < 0, z3.RealVal(-1), either(x > 0, z3.RealVal(1), z3.RealVal(0)))


@dataclass(frozen=True, slots=True)
class RealKind:
    """Floats taken as real numbers: no rounding, no NaN, no infinity and one zero."""

    @property
    def sort(self) -> Any:
        """The sort of real numbers."""
        return z3.RealSort()

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The functions that are exact over the reals."""
        return REAL_OPERATIONS

    @property
    def domains(self) -> Mapping[str, Operation]:
        """The conditions under which quotients, roots and logarithms exist."""
        return REAL_DOMAINS

    def constant(self, number: Any) -> Term:
        """The term of a finite number. Raises NotApplicable for others."""
        if isinstance(number, Fraction):
            return z3.Q(number.numerator, number.denominator)
        if not np.isfinite(number):
            raise NotApplicable(f"the constant {number} is no real number")
        return self.constant(simplest_fraction(number))


def simplest_fraction(number: Any) -> Fraction:
    """The fraction of least denominator that rounds to a float of its type: 1/10 for the float32 0.1.

    A number of another type than float32 and float64 is itself.
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
    """The fraction of least denominator between two positive ones (Stern-Brocot tree, by continued fractions)."""
    whole = low.numerator // low.denominator
    if whole + 1 <= high or low == whole:
        return Fraction(whole if low == whole else whole + 1)
    return whole + 1 / _simplest_between(1 / (high - whole), 1 / (low - whole))


REAL_FUNCTIONS: Mapping[str, Unary] = {
    "absolute": lambda x: either(x < 0, -x, x),
    "ceil": lambda x: -z3.ToReal(z3.ToInt(-x)),
    "floor": lambda x: z3.ToReal(z3.ToInt(x)),
    "isinf": lambda _: FALSE,
    "isnan": lambda _: FALSE,
    "negative": lambda x: -x,
    "rint": _round_half_to_even,
    "sign": _sign_of_real,
}
REAL_OPERATIONS: Mapping[str, Operation] = {
    **REAL_FUNCTIONS,
    **ORDER,
    "add": _plus,
    "divide": _quotient,
    "maximum": _greater_of,
    "minimum": _lesser_of,
    "multiply": _times,
    "subtract": _minus,
}
REAL_FUNCTION_DOMAINS: Mapping[str, Unary] = {
    "arccos": lambda x: z3.And(x >= -1, x <= 1),
    "arccosh": lambda x: x >= 1,
    "arcsin": lambda x: z3.And(x >= -1, x <= 1),
    "arctanh": lambda x: z3.And(x > -1, x < 1),
    "log": lambda x: x > 0,
    "sqrt": lambda x: x >= 0,
}
REAL_DOMAINS: Mapping[str, Operation] = {**REAL_FUNCTION_DOMAINS, "divide": _is_nonzero_divisor}


@dataclass(frozen=True)
class FloatKind:
    """Floats of IEEE 754 bit for bit, but for the bits of NaN: the signs of zero, infinities and rounding included."""

    dtype: int

    @cached_property
    def sort(self) -> Any:
        """The sort of floats of that type."""
        return z3.FPSort(*FLOAT_SORTS[self.dtype])

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The functions that onnxruntime computes with one rounding, or none."""
        return self._operations

    @property
    def domains(self) -> Mapping[str, Operation]:
        """None: each operation has a result for all floats."""
        return {}

    def constant(self, number: Any) -> Term:
        """The term of a number, rounded to the nearest."""
        if isinstance(number, Fraction):
            return z3.simplify(z3.fpRealToFP(NEAREST, z3.Q(number.numerator, number.denominator), self.sort))
        value = float(number)
        if np.isnan(value):
            return z3.fpNaN(self.sort)
        if np.isinf(value):
            return z3.fpInfinity(self.sort, value < 0)
        return z3.fpMinusZero(self.sort) if value == 0 and np.signbit(value) else z3.FPVal(value, self.sort)

    @cached_property
    def _operations(self) -> Mapping[str, Operation]:
        zero, one, minus = (self.constant(n) for n in (0, 1, -1))
        functions: Mapping[str, Unary] = {
            "absolute": z3.fpAbs,
            "ceil": lambda x: z3.fpRoundToIntegral(z3.RTP(), x),
            "floor": lambda x: z3.fpRoundToIntegral(z3.RTN(), x),
            "isinf": z3.fpIsInf,
            "isnan": z3.fpIsNaN,
            "negative": z3.fpNeg,
            "rint": lambda x: z3.fpRoundToIntegral(NEAREST, x),
            "sign": lambda x: either(
                z3.fpIsNaN(x), x, either(z3.fpLT(x, zero), minus, either(z3.fpGT(x, zero), one, zero))
            ),
            "sqrt": lambda x: z3.fpSqrt(NEAREST, x),
        }
        return {**functions, **FLOAT_OPERATIONS}


FLOAT_OPERATIONS: Mapping[str, Binary] = {
    "add": lambda a, b: z3.fpAdd(NEAREST, a, b),
    "divide": lambda a, b: z3.fpDiv(NEAREST, a, b),
    "equal": z3.fpEQ,
    "greater": z3.fpGT,
    "greater_equal": z3.fpGEQ,
    "less": z3.fpLT,
    "less_equal": z3.fpLEQ,
    "multiply": lambda a, b: z3.fpMul(NEAREST, a, b),
    "subtract": lambda a, b: z3.fpSub(NEAREST, a, b),
}


@dataclass(frozen=True)
class IntegerKind:
    """Integers of so many bits, which wrap around."""

    width: int
    signed: bool

    @cached_property
    def sort(self) -> Any:
        """The sort of bit-vectors of that width."""
        return z3.BitVecSort(self.width)

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The functions as onnxruntime's kernels compute them; `divide` truncates."""
        return self._operations

    @property
    def domains(self) -> Mapping[str, Operation]:
        """The condition under which a division does not end the process: not by 0, nor of the least number by -1."""

        def divides(a: Term, b: Term) -> Term:
            if not self.signed:
                return b != 0
            return z3.And(b != 0, z3.Not(z3.And(a == 1 << (self.width - 1), b == -1)))

        return dict.fromkeys(("divide", "fmod", "remainder"), divides)

    def constant(self, number: Any) -> Term:
        """The term of an integer."""
        return z3.BitVecVal(int(number), self.width)

    @cached_property
    def _operations(self) -> Mapping[str, Operation]:
        less, at_most, divide, remainder = SIGNED if self.signed else UNSIGNED
        zero, one = self.constant(0), self.constant(1)
        functions: Mapping[str, Unary] = {
            "absolute": lambda x: either(less(x, zero), -x, x),
            "invert": lambda x: ~x,
            "negative": lambda x: -x,
            "sign": lambda x: either(less(x, zero), -one, either(x == zero, zero, one)),
        }
        binary: Mapping[str, Binary] = {
            "add": _plus,
            "bitwise_and": lambda a, b: a & b,
            "bitwise_or": lambda a, b: a | b,
            "bitwise_xor": lambda a, b: a ^ b,
            "divide": divide,
            "equal": _equals,
            "fmod": z3.SRem if self.signed else z3.URem,
            "greater": lambda a, b: less(b, a),
            "greater_equal": lambda a, b: at_most(b, a),
            "less": less,
            "less_equal": at_most,
            "maximum": lambda a, b: either(less(a, b), b, a),
            "minimum": lambda a, b: either(less(b, a), b, a),
            "remainder": remainder,
            "multiply": _times,
            "subtract": _minus,
        }
        return {**functions, **binary}


@dataclass(frozen=True, slots=True)
class BoolKind:
    """Truth values."""

    @property
    def sort(self) -> Any:
        """The sort of truth values."""
        return z3.BoolSort()

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The functions of truth values."""
        return BOOL_OPERATIONS

    @property
    def domains(self) -> Mapping[str, Operation]:
        """None."""
        return {}

    def constant(self, number: Any) -> Term:
        """The term of a bool."""
        return z3.BoolVal(bool(number))


BOOL_OPERATIONS: Mapping[str, Operation] = {
    "bitwise_and": z3.And,
    "bitwise_or": z3.Or,
    "bitwise_xor": z3.Xor,
    "invert": z3.Not,
    "logical_and": z3.And,
    "equal": _equals,
    "logical_not": z3.Not,
    "logical_or": z3.Or,
    "logical_xor": z3.Xor,
}


@dataclass(frozen=True, slots=True)
class TextKind:
    """Texts, of which only equality is known."""

    @property
    def sort(self) -> Any:
        """A sort without structure."""
        return z3.DeclareSort("Text")

    @property
    def operations(self) -> Mapping[str, Operation]:
        """Equality."""
        return {"equal": _equals}

    @property
    def domains(self) -> Mapping[str, Operation]:
        """None."""
        return {}

    def constant(self, number: Any) -> Term:
        """The term of a text."""
        return z3.Const(f"text {number!r}", self.sort)


@dataclass(frozen=True)
class Arithmetic:
    """The reading of floats: as real numbers, or bit for bit."""

    over_reals: bool
    kinds: dict[int, Kind] = field(default_factory=dict[int, Kind], compare=False)

    def kind(self, dtype: int) -> Kind:
        """The kind of an element type. Raises NotApplicable for one without terms."""
        if dtype not in self.kinds:
            self.kinds[dtype] = self._made(dtype)
        return self.kinds[dtype]

    def _made(self, dtype: int) -> Kind:
        if dtype in FLOAT_SORTS:
            return RealKind() if self.over_reals else FloatKind(dtype)
        if dtype in INTEGER_SORTS:
            return IntegerKind(*INTEGER_SORTS[dtype])
        if dtype == TensorProto.BOOL:
            return BoolKind()
        if dtype == TensorProto.STRING:
            return TextKind()
        raise NotApplicable(f"elements of type {TensorProto.DataType.Name(dtype)} have no terms")


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a tensor: a term, and the condition under which it is defined."""

    term: Term
    kind: Kind
    defined: Term = TRUE


def all_of(*conditions: Term) -> Term:
    """The conjunction, without those that are true."""
    open_ones = list({c.get_id(): c for c in conditions if c is not TRUE}.values())
    if not open_ones:
        return TRUE
    return open_ones[0] if len(open_ones) == 1 else z3.And(*open_ones)
