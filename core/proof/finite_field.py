"""Arithmetic on real expressions in a finite field, where equal residues for random arguments imply equal expressions.

An element is a pair of residues (x mod P, x mod Q) for primes with P = 2 Q + 1. The exponential maps Z_Q to the
squares of Z_P, a group of order Q, and turns sums into products there; the logarithm is its inverse. Square roots are
those that are squares themselves. A rational expression of degree d that is not zero vanishes at a random point with
probability d / P at most (Schwartz, Zippel). Exponentials and logarithms preserve only one of the residues; the other
one is replaced by a hash of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from fractions import Fraction
from functools import cache, reduce
from math import prod
from typing import Any, cast

import numpy as np
from msgspec import Struct

from ..support.context_values import set_within_block

Ints = np.ndarray[Any, Any]
P, Q = 2102999, 1051499
"""Primes with P = 2 Q + 1, so that -1 is no square of Z_P; 2, 3, 5 and 7 are squares, as in the reals."""
GENERATOR = 4  # of the squares of Z_P
GENERATORS = {P: 13, Q: 2}  # of all residues but 0
MODULUS, EXPONENT, HAS_MODULUS, HAS_EXPONENT, UNDEFINED, REGION = range(6)  # rows of FieldArray.data
ROWS = 6
MASKS = slice(HAS_MODULUS, HAS_EXPONENT + 1)


class FieldArray(Struct, frozen=True):
    """An array of field elements: `data` has two rows for residues and four more, for each sample.

    `data[row, sample]` has the shape of the array: residues mod P (MODULUS) and Q (EXPONENT), known or not. The samples
    are independent residues of the same expressions; a constant has one sample, which is valid for all.

    HAS_MODULUS and HAS_EXPONENT say which residues are known; others are hashes of the known ones, or computed from
    hashes, so that they can also be added and multiplied. UNDEFINED says where the expression has no value in the
    field, such as the root of a number that is no square. REGION identifies the decisions that led to an element: the
    arguments that a maximum chose, the branches of a comparison; 0 if there were none.
    """

    data: Ints

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.data.shape[2:]

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def in_rows(self) -> Ints:
        """The data with one axis for the elements."""
        return self.data.reshape(*self.data.shape[:2], self.size)

    def broadcast_to(self, shape: tuple[int, ...], samples: int = 1) -> FieldArray:
        """Broadcast the array to another shape, with at least so many samples; the data are read-only."""
        wide = (ROWS, max(self.data.shape[1], samples), *shape)
        aligned = self.of_rank(len(shape)).data
        return FieldArray(aligned if aligned.shape == wide else np.broadcast_to(aligned, wide))

    def of_rank(self, rank: int) -> FieldArray:
        """The array with so many axes; new ones come first."""
        rows, samples, *extents = self.data.shape
        missing = rank - len(extents)
        return FieldArray(self.data.reshape(rows, samples, *(1,) * missing, *extents)) if missing else self

    @property
    def identity(self) -> Ints:
        """A number for each element that equal expressions share: the known residue."""
        return cast("Ints", np.where(self.data[HAS_MODULUS], self.data[MODULUS], self.data[EXPONENT] + P))

    def take(self, indices: Ints) -> FieldArray:
        """The elements at flat indices, in the shape of the indices."""
        return FieldArray(self.in_rows()[:, :, indices])

    def with_rows(self, **rows: Ints | int) -> FieldArray:
        """A copy with rows replaced, by their names in lower case."""
        data = self.data.copy()
        for name, row in rows.items():
            data[ROW_NAMES[name]] = row
        return FieldArray(data)


ROW_NAMES = {"undefined": UNDEFINED, "region": REGION, "has_modulus": HAS_MODULUS, "has_exponent": HAS_EXPONENT}


def mixed(numbers: Ints, salt: int) -> Ints:
    """A 62-bit hash of each number (the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt * 0x632BE59BD9B4E019 % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(2)).astype(np.int64)


def _powers(generator: int, count: int, modulus: int) -> Ints:
    """The first powers of a generator, by exponent."""
    powers = np.ones(1, np.int64)
    while len(powers) < count:
        powers = np.concatenate([powers, powers * pow(generator, len(powers), modulus) % modulus])
    return powers[:count]


@cache
def power_table() -> Ints:
    """The powers of the generator of the squares of Z_P, by exponent."""
    return _powers(GENERATOR, Q, P)


@cache
def logarithm_table() -> Ints:
    """The exponents of the squares of Z_P, by residue; -1 for other residues."""
    table = np.full(P, -1, np.int64)
    table[power_table()] = np.arange(Q)
    return table


@cache
def inverse_table(modulus: int) -> Ints:
    """The inverses modulo P or Q, by residue; 0 for 0."""
    order = modulus - 1
    powers = _powers(GENERATORS[modulus], order, modulus)
    table = np.zeros(modulus, np.int64)
    table[powers] = powers[-np.arange(order) % order]
    return table


def inverse(residues: Ints, modulus: int) -> Ints:
    """The inverses modulo P or Q, 0 for 0."""
    return inverse_table(modulus)[residues % modulus]


def from_rows(modulus: Ints | None, exponent: Ints | None, like: FieldArray) -> FieldArray:
    """An array of new residues, one of which may be unknown, which is defined where `like` is, in its regions."""
    given: Any = modulus if modulus is not None else exponent
    data = np.zeros((ROWS, *np.shape(given)), np.int64)
    for row, residues, size in ((MODULUS, modulus, P), (EXPONENT, exponent, Q)):
        data[row] = mixed(np.asarray(given), row + 1) % size if residues is None else residues
        data[HAS_MODULUS + row] = residues is not None
    data[UNDEFINED], data[REGION] = like.data[UNDEFINED], like.data[REGION]
    return FieldArray(data)


def rational(number: Fraction) -> tuple[int, int]:
    """The residues of a rational number."""
    p, q = (number.numerator * pow(number.denominator, -1, m) % m for m in (P, Q))
    return p, q


def combined_regions(*regions: Ints) -> Ints:
    """The regions of computed elements: 0 if there was no decision, and unchanged if only one operand has a region."""
    found = regions[0]
    for other in regions[1:]:
        if not other.any():
            continue
        both = mixed(found * 3 + other, 7)
        found = np.where(other == 0, found, np.where((found == 0) | (found == other), other, both))
    return found


Ring = Callable[[Sequence[Ints], int], Ints]
"""Residues of the operands, and their modulus."""


def ring(function: Ring, *operands: FieldArray) -> FieldArray:
    """An operation on both residues: `function(residues, modulus)`. Operands are broadcast."""
    rank = max(len(a.shape) for a in operands)
    aligned = [a.of_rank(rank).data for a in operands]
    rows = [function([a[row] for a in aligned], modulus) for row, modulus in ((MODULUS, P), (EXPONENT, Q))]
    data = np.empty((ROWS, *rows[0].shape), np.int64)
    data[MODULUS], data[EXPONENT] = rows
    data[MASKS] = reduce(np.bitwise_and, (a[MASKS] for a in aligned))
    # A hash of random residues is equally random.
    data[HAS_EXPONENT] |= 1 - (data[HAS_MODULUS] | data[HAS_EXPONENT])
    data[UNDEFINED] = reduce(np.bitwise_or, (a[UNDEFINED] for a in aligned))
    data[REGION] = combined_regions(*(a[REGION] for a in aligned))
    return FieldArray(data)


def most_samples(arrays: Sequence[FieldArray]) -> int:
    """The number of samples of a result; constants have one sample."""
    return max((a.data.shape[1] for a in arrays), default=1)


def add(a: FieldArray, b: FieldArray) -> FieldArray:
    """A + b"""
    return ring(lambda r, m: (r[0] + r[1]) % m, a, b)


def subtract(a: FieldArray, b: FieldArray) -> FieldArray:
    """A - b"""
    return ring(lambda r, m: (r[0] - r[1]) % m, a, b)


def multiply(a: FieldArray, b: FieldArray) -> FieldArray:
    """A * b"""
    return ring(lambda r, m: r[0] * r[1] % m, a, b)


def negative(a: FieldArray) -> FieldArray:
    """-a"""
    return ring(lambda r, m: -r[0] % m, a)


def divide(a: FieldArray, b: FieldArray) -> FieldArray:
    """A / b, undefined where a residue of b is 0."""
    data = b.data.copy()
    data[UNDEFINED] |= (data[HAS_MODULUS] & (data[MODULUS] == 0)) | (data[HAS_EXPONENT] & (data[EXPONENT] == 0))
    data[MODULUS], data[EXPONENT] = inverse(data[MODULUS], P), inverse(data[EXPONENT], Q)
    return multiply(a, FieldArray(data))


def exp(a: FieldArray) -> FieldArray:
    """The exponential, a square of Z_P."""
    return from_rows(power_table()[a.data[EXPONENT]], None, a)


ALWAYS_DEFINED: ContextVar[bool] = ContextVar("ALWAYS_DEFINED", default=False)
"""Whether a root or logarithm that the field lacks is a hash of its operand, for which no law is known."""


def roots_always_defined() -> AbstractContextManager[None]:
    """Replace the roots and logarithms of numbers that are no squares by numbers about which nothing is known.

    Equal results are then equal in the reals, but laws of roots do not hold.
    """
    return set_within_block(ALWAYS_DEFINED, True)


def log(a: FieldArray) -> FieldArray:
    """The logarithm, undefined where `a` is no square."""
    residues = a.data[MODULUS]
    found = logarithm_table()[residues]
    is_lacking = (found < 0) & (residues != 0)
    made = from_rows(None, np.where(found < 0, mixed(residues, 21) % Q, found), a)
    return _defined_but(made, is_lacking, residues == 0)


def sqrt(a: FieldArray) -> FieldArray:
    """The root that is a square itself, undefined where `a` is no square; the root of 0 is 0."""
    residues = a.data[MODULUS]
    exponent = logarithm_table()[residues]
    is_lacking = (exponent < 0) & (residues != 0)
    root = power_table()[np.maximum(exponent, 0) * ((Q + 1) // 2) % Q]
    made = from_rows(np.where(residues == 0, 0, np.where(is_lacking, mixed(residues, 22) % P, root)), None, a)
    return _defined_but(made, is_lacking)


def _defined_but(a: FieldArray, is_lacking: Ints, is_undefined: Ints | bool = False) -> FieldArray:
    """The array, undefined at those places: where the field lacks a number, unless a hash replaces it."""
    undefined = is_undefined if ALWAYS_DEFINED.get() else is_lacking | is_undefined
    return a.with_rows(undefined=a.data[UNDEFINED] | undefined)


def apply_function(name: str, *operands: FieldArray) -> FieldArray:
    """A function of which only the name is known: a hash of its operands, element by element."""
    salt = 11 + sum(ord(c) * 131**i for i, c in enumerate(name)) % 2**40

    def hashed(residues: Sequence[Ints], modulus: int) -> Ints:
        found: Any = 0
        for r in residues:
            found = mixed(found + r, salt)
        return found % modulus

    made = ring(hashed, *(from_rows(a.identity, None, a) for a in operands))
    return from_rows(made.data[MODULUS], None, made)


def select(condition: Ints, a: FieldArray, b: FieldArray) -> FieldArray:
    """The elements of `a` where a condition holds, otherwise of `b`; the condition becomes part of their region."""
    shape, samples = np.broadcast_shapes(condition.shape, a.shape, b.shape), most_samples((a, b))
    data = np.where(condition, *(x.broadcast_to(shape, samples).data for x in (a, b)))
    data[REGION] = mixed(data[REGION] * 2 + np.where(condition, 1, 0), 5)
    return FieldArray(data)


def absolute(a: FieldArray, is_negative: Ints) -> FieldArray:
    """|a|, by the signs of the numbers; undefined where the root of its square would be the other root."""
    found = select(is_negative, negative(a), a)
    residues = found.data[MODULUS]
    is_other_root = (logarithm_table()[residues] < 0) & (residues != 0)
    return found.with_rows(undefined=found.data[UNDEFINED] | is_other_root)


def integer_power(a: FieldArray, exponent: int) -> FieldArray:
    """A power with a whole exponent, which may be negative."""

    def powers(residues: Sequence[Ints], modulus: int) -> Ints:
        base = residues[0]
        found, left = np.ones_like(base), abs(exponent)
        while left:
            if left & 1:
                found = found * base % modulus
            base, left = base * base % modulus, left >> 1
        return found

    found = ring(powers, a)
    one = np.zeros((ROWS, 1), np.int64)
    one[[MODULUS, EXPONENT, HAS_MODULUS, HAS_EXPONENT]] = 1
    return found if exponent >= 0 else divide(FieldArray(one), found)


def knows_both(a: FieldArray) -> Ints:
    """A mask of the elements for which both residues are known."""
    return (a.data[HAS_MODULUS] & a.data[HAS_EXPONENT]).astype(np.int64)


def same(a: FieldArray, b: FieldArray) -> tuple[Ints, Ints]:
    """Masks by sample of the elements defined in both arrays, and of the elements equal in a known residue."""
    defined = (a.data[UNDEFINED] == 0) & (b.data[UNDEFINED] == 0)
    equal = np.ones(defined.shape, np.bool_)
    crossed = np.ones(defined.shape, np.bool_)
    for row in (MODULUS, EXPONENT):
        known = (a.data[HAS_MODULUS + row] & b.data[HAS_MODULUS + row]).astype(np.bool_)
        equal &= ~known | (a.data[row] == b.data[row])
        crossed &= ~known
    return defined, equal & (~crossed | (a.data[MODULUS] == b.data[MODULUS]))
