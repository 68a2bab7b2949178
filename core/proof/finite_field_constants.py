"""Residues of floating-point constants, each of which represents the simplest number that rounds to it.

An exporter writes 0.70710677 for the root of 1/2, and 1e-05 for a hundred-thousandth. A float for which no simple
number rounds to it represents exactly its binary fraction.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from operator import itemgetter
from typing import Any

import ml_dtypes
import numpy as np

from .finite_field import (
    EXPONENT,
    HAS_EXPONENT,
    HAS_MODULUS,
    MODULUS,
    ROWS,
    UNDEFINED,
    FieldArray,
    P,
    Q,
    logarithm_table,
    mixed,
    power_table,
    rational,
)

Floats = np.ndarray[Any, Any]
MAX_NAMED = (
    4096  # distinct elements of an array for which simple numbers are sought; of more, all are taken as they are
)
NARROW_DTYPES: Mapping[str, np.dtype[Any]] = {d.name: d for d in map(np.dtype, (np.float16, ml_dtypes.bfloat16))}
EPSILONS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
COMMON = frozenset({"root 2/1", "root 1/2", "root 2/1 / pi", "pi * 1/1"})
DECIMALS = (Fraction("0.044715"), Fraction("1.702"))  # of Gelu, which 16-bit floats round to different numbers
MAX_SIMPLE = 64  # of numerator and denominator of a number that keeps its value for every seed
SMALL_DENOMINATOR, SMALL_ROOT = 64, 8
SINGLE_DIGITS, DOUBLE_DIGITS = 6, 14
MAX_ROOT, MAX_HEAD = 1024, 257
Column = tuple[int, int, int, int, int, int]


def lift(numbers: Floats | float, seed: int = 0, *, is_held: bool = False) -> FieldArray:
    """The field elements of floats, integers or bools; of doubles that single precision has, as such ones.

    Doubles that a model holds (`is_held`) are constants of double precision in any case.

    With a `seed`, floats other than 0 stand for any number of their sign: their residues are random. A number alone in
    its array keeps its value if it is simple.
    """
    array = np.asarray(numbers)
    if array.dtype.kind in "biu":
        return whole_numbers(array)
    wide = array.astype(np.float64)
    dtype = DOUBLE if is_held and array.dtype == DOUBLE else NARROW_DTYPES.get(array.dtype.name)
    if array.size == 1:
        return FieldArray(simple_columns(wide.reshape(1), dtype, seed, False).reshape(ROWS, 1, *array.shape))
    distinct, places = np.unique(wide, return_inverse=True)
    is_named = distinct.size <= MAX_NAMED
    columns = simple_columns(distinct, dtype, seed, True) if is_named else binary_columns(distinct)
    return FieldArray(columns[:, None, places.reshape(wide.shape)])


def lift_exactly(numbers: Floats) -> FieldArray:
    """The field elements of floats as exact binary fractions."""
    distinct, places = np.unique(numbers.astype(np.float64), return_inverse=True)
    return FieldArray(binary_columns(distinct)[:, None, places.reshape(numbers.shape)])


def whole_numbers(array: Any) -> FieldArray:
    """The field elements of integers or bools."""
    data = np.zeros((ROWS, 1, *array.shape), np.int64)
    wide = array.astype(np.int64) if array.dtype != np.uint64 else array
    data[MODULUS], data[EXPONENT] = wide % P, wide % Q
    data[HAS_MODULUS] = data[HAS_EXPONENT] = 1
    return FieldArray(data)


def simple_columns(numbers: Floats, dtype: np.dtype[Any] | None, seed: int, is_vector: bool) -> Any:
    """A column of residues for each number, rounded to the given type or the type of its form."""
    columns = [column_of(x, dtype, seed, is_vector) for x in numbers.tolist()]
    return np.array(columns, np.int64).reshape(-1, ROWS).T


def binary_columns(numbers: Floats) -> Any:
    """A column for each number as an exact binary fraction."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(numbers), numbers, 0))
    whole = np.round(mantissa * 2.0**53).astype(np.int64)
    data = np.zeros((ROWS, numbers.size), np.int64)
    for row, m in ((MODULUS, P), (EXPONENT, Q)):
        powers = {e: pow(2, int(e) - 53, m) for e in np.unique(exponent).tolist()}
        data[row] = whole % m * np.array([powers[e] for e in exponent.tolist()], np.int64) % m
    data[HAS_MODULUS] = data[HAS_EXPONENT] = 1
    data[UNDEFINED] = ~np.isfinite(numbers)
    return data


@cache
def column_of(number: float, given: np.dtype[Any] | None, seed: int, is_vector: bool) -> Column:
    """The rows of one number."""
    if not math.isfinite(number):
        return 0, 0, 1, 1, 1, 0
    is_single = given is not DOUBLE and rounded_to(number, SINGLE) in (number, math.inf, -math.inf)
    own, narrow = SINGLE if is_single else DOUBLE, given if given is not DOUBLE else None
    if seed and is_vector and number:
        return _random_column(number, seed)
    for name in irrationals_rounded_to(abs(number), narrow or own):
        if narrow is not None and name not in COMMON:
            continue  # in 16 bits, every number is near a root
        p, q, has_p, has_q = irrational_columns()[name]
        p, q = (p, _hash(p, 2, Q)) if has_p else (_hash(q, 1, P), q)
        return *((p, q) if number > 0 else (-p % P, -q % Q)), has_p, has_q, 0, 0
    named = next((c for c in DECIMALS if rounded_to(float(c), narrow or own) == abs(number)), None)
    fraction = (named if number > 0 else -named) if named is not None else simple_fraction(number, own)
    if seed and max(abs(fraction.numerator), fraction.denominator) > MAX_SIMPLE:
        return _random_column(number, seed)
    return *rational(fraction), 1, 1, 0, 0


def rounded_to(number: float, dtype: np.dtype[Any]) -> float:
    """The nearest float of a type."""
    with np.errstate(over="ignore"):
        return float(dtype.type(number))


def irrationals_rounded_to(number: float, dtype: np.dtype[Any]) -> Iterator[str]:
    """Yield the names of irrational numbers that round to a number, in the order in which they are listed."""
    ordered = irrationals_by_size()
    error = 2 * EPSILONS[dtype.name]
    low, high = (bisect(ordered, (number * (1 + side * error),)) for side in (-1, 1))
    for size, _, name in sorted(ordered[low:high], key=itemgetter(1)):
        if rounded_to(size, dtype) == number:
            yield name


@cache
def irrationals_by_size() -> Sequence[tuple[float, int, str]]:
    """The numbers of `irrational_sizes` by size, each with its position there and its name."""
    return sorted((size, place, name) for place, (name, size) in enumerate(irrational_sizes().items()))


def _hash(residue: int, salt: int, modulus: int) -> int:
    return int(mixed(np.array([residue]), salt)[0]) % modulus


def _random_column(number: float, seed: int) -> Column:
    """Random residues for a number and its negative: the positive one is a square."""
    bits = np.array([abs(number)]).view(np.int64)
    square = int(power_table()[int(mixed(bits, 100 + seed)[0]) % Q])
    exponent = int(mixed(bits, 200 + seed)[0]) % Q
    return (square, exponent, 1, 1, 0, 0) if number > 0 else (P - square, -exponent % Q, 1, 1, 0, 0)


def simple_fraction(number: float, dtype: np.dtype[Any]) -> Fraction:
    """The fraction with a small denominator, or else few decimals, that rounds to a number.

    If there is none, the number itself.
    """
    exact = Fraction(number)
    for candidate in _candidates(exact, number, SINGLE_DIGITS if dtype is SINGLE else DOUBLE_DIGITS):
        if rounded_to(float(candidate), dtype) == number:
            return candidate
    return exact


def _candidates(exact: Fraction, number: float, digits: int) -> Iterator[Fraction]:
    yield exact.limit_denominator(1)
    yield exact.limit_denominator(SMALL_DENOMINATOR)
    yield from (Fraction(f"{number:.{n}e}") for n in range(digits))
    yield exact.limit_denominator(SMALL_DENOMINATOR**2)


@cache
def irrational_columns() -> Mapping[str, tuple[int, int, int, int]]:
    """The residues of irrational numbers that exporters write, by name."""
    found: dict[str, tuple[int, int, int, int]] = {}

    def root(of: int) -> tuple[int, int, int, int]:
        exponent = int(logarithm_table()[of % P])
        return int(power_table()[exponent * ((Q + 1) // 2) % Q]), 0, 1, 0

    for n, d in _root_arguments():
        of = n * pow(d, -1, P) % P
        if logarithm_table()[of] >= 0:
            found[f"root {n}/{d}"] = root(of)
    pi = next(s * s % P for s in (int(mixed(np.array([k]), 3)[0]) % P for k in range(1, 9)) if s)
    pi_inverse = pow(pi, -1, P)
    found |= {f"pi * {n}/{d}": (pi * n * pow(d, -1, P) % P, 0, 1, 0) for n, d in _PI_MULTIPLES}
    found |= {f"root {n}/{d} / pi": root(n * pow(d, -1, P) * pi_inverse % P) for n, d in _ROOTS_OVER_PI}
    found |= {f"ln {k}": (0, int(logarithm_table()[k]), 0, 1) for k in (2, 10)}
    found |= {f"fourth root 1/{n}": root(found[f"root 1/{n}"][0]) for n in _head_sizes() if f"root 1/{n}" in found}
    return found


def _head_sizes() -> Iterator[int]:
    """Yield sizes of heads; queries and keys are each scaled by the fourth root."""
    return (n for n in range(2, MAX_HEAD) if math.isqrt(n) ** 2 != n)


_PI_MULTIPLES = ((1, 1), (2, 1), (1, 2), (1, 4))
_ROOTS_OVER_PI = ((2, 1), (1, 2), (1, 1))


def _root_arguments() -> Iterator[tuple[int, int]]:
    yield from ((n, 1) for n in range(2, MAX_ROOT) if math.isqrt(n) ** 2 != n)
    yield from ((1, n) for n in range(2, MAX_ROOT) if math.isqrt(n) ** 2 != n)
    small = range(2, SMALL_ROOT)
    yield from ((n, d) for n in small for d in small if math.gcd(n, d) == 1 and math.isqrt(n * d) ** 2 != n * d)


@cache
def irrational_sizes() -> Mapping[str, float]:
    """The real numbers of `irrational_columns`."""
    found = {f"root {n}/{d}": float(Fraction(math.isqrt(n * d << 256), d << 128)) for n, d in _root_arguments()}
    found |= {f"pi * {n}/{d}": math.pi * n / d for n, d in _PI_MULTIPLES}
    found |= {f"root {n}/{d} / pi": math.sqrt(n / d / math.pi) for n, d in _ROOTS_OVER_PI}
    found |= {f"ln {k}": math.log(k) for k in (2, 10)}
    found |= {f"fourth root 1/{n}": n**-0.25 for n in _head_sizes()}
    return {name: size for name, size in found.items() if name in irrational_columns()}
