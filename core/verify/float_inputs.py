"""Generation of floats of each kind, within the range of their type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any, NamedTuple, cast

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
DType = np.dtype[Any]

TIED_VALUES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
MIXED = "medley"
MIXED_KINDS = ("negative", "tiny", "zeros", "ties", "signed zeros", "normal")  # of a medley, in runs of equal length
NONFINITE_VALUES = {"nan": (np.nan,), "inf": (np.inf, -np.inf)}
MIN_ROWS_TO_HALVE = 8
MIN_POSITIVE = 0.01
SPECIAL_ONE_IN = 8  # elements of an extreme, NaN or infinite draw that are no normal numbers


class FloatLimits(NamedTuple):
    """The largest, least normal and least subnormal number of a type."""

    max: float
    smallest_normal: float
    smallest_subnormal: float


def generate_floats(
    kind: str, shape: Shape, dtype: DType, rng: np.random.Generator, *, selection_only: bool = False
) -> Array:
    """Numbers of a kind, finite except for `nan` and `inf`; both parts of complex numbers are of that kind."""
    if dtype.kind == "c":
        part = np.dtype(np.float64 if dtype.itemsize == 16 else np.float32)
        with np.errstate(all="ignore"):
            real, imaginary = (generate_floats(kind, shape, part, rng, selection_only=selection_only) for _ in range(2))
            return _cast((real + 1j * imaginary) if kind not in NONFINITE_VALUES else real + 0j, dtype)
    if kind == MIXED:
        sizes = [r.size for r in np.array_split(np.zeros(prod(shape), np.bool_), len(MIXED_KINDS))]
        runs = [generate_floats(k, (size,), dtype, rng) for k, size in zip(MIXED_KINDS, sizes, strict=True)]
        return np.concatenate(runs).reshape(shape)
    if kind == "extremes" or kind in NONFINITE_VALUES:
        normal = generate_floats("normal", shape, dtype, rng)
        special = NONFINITE_VALUES.get(kind) or extreme_values(dtype, selection_only=selection_only)
        return _with_special_values(normal, np.array(special), rng)
    return to_finite(FINITE_FLOATS[kind](shape, dtype, rng), dtype)


def generate_unit_interval_floats(kind: str, shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """Numbers between 0 and 1, such as probabilities and ratios; small, large or zero in the kinds of these names."""
    low, high = {"negative": (0.01, 0.1), "large": (0.9, 0.99), "zeros": (0.0, 0.0)}.get(kind, (0.1, 0.9))
    return to_finite(np.asarray(rng.uniform(low, high, shape)), dtype)


def floats_near_points(points: tuple[float, ...], shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """Floats at each point, one step below and above, and 1 % to both sides, in random order."""
    at = to_finite(np.array(points), dtype)
    below, above = (np.nextafter(at, to_finite(np.full(at.shape, far), dtype)) for far in (-np.inf, np.inf))
    wide = np.abs(at.astype(np.float64)) + 1.0
    near, far = (to_finite(at.astype(np.float64) + side * wide * 0.01, dtype) for side in (-1, 1))
    return shuffled(np.stack([at, below, above, near, far]), shape, rng)


def shuffled(table: Array, shape: Shape, rng: np.random.Generator) -> Array:
    """The numbers of the table in random order; its first rows have priority if there is not room for all."""
    rows = [rng.permutation(row) for row in table]
    return rng.permutation(np.resize(np.concatenate(rows), prod(shape))).reshape(shape)


@cache
def kinds_without_special_values(dtype: DType) -> frozenset[str]:
    """The kinds whose special values the type lacks: NaN, infinities or negative zero."""
    probes = {"nan": (np.nan, np.isnan), "inf": (np.inf, np.isinf), "signed zeros": (-0.0, np.signbit)}
    with np.errstate(all="ignore"):
        in_dtype = {kind: _cast(value, dtype).astype(np.complex128).real for kind, (value, _) in probes.items()}
    return frozenset(kind for kind, (_, has) in probes.items() if not has(in_dtype[kind]))


def _generate_wide(shape: Shape, _: DType, rng: np.random.Generator) -> Array:
    """Numbers with three times the spread, positive in the first half of the rows, or in all if there are few."""
    drawn = 3.0 * np.asarray(rng.standard_normal(shape))
    if drawn.ndim == 0 or len(drawn) < MIN_ROWS_TO_HALVE:
        return np.abs(drawn) + MIN_POSITIVE
    half = len(drawn) // 2
    drawn[:half] = np.abs(drawn[:half]) + MIN_POSITIVE
    return drawn


def _generate_signed_zeros(shape: Shape, _: DType, rng: np.random.Generator) -> Array:
    """Zeros of both signs, the first one negative, with a few ones between them."""
    flat = rng.choice(np.array([-0.0, 0.0, -1.0, 1.0]), shape, p=(0.4, 0.4, 0.1, 0.1)).reshape(-1)
    flat[:2] = (-0.0, 0.0)[: flat.size]
    return flat.reshape(shape)


def _generate_tiny(shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """Numbers of both signs with log-uniform magnitudes from the least subnormal to 1e-6."""
    low = float_limits(dtype).smallest_subnormal
    high = max(1e-6, 4.0 * low)
    magnitude = np.exp2(np.asarray(rng.uniform(np.log2(low), np.log2(high), shape)))
    return rng.choice(np.array([-1.0, 1.0]), shape) * np.maximum(magnitude, low)


FINITE_FLOATS: dict[str, Callable[[Shape, DType, np.random.Generator], Any]] = {
    "normal": lambda shape, _, rng: rng.standard_normal(shape),
    "negative": lambda shape, _, rng: rng.standard_normal(shape) - 3.0,
    "large": lambda shape, dtype, rng: rng.standard_normal(shape) * (100.0 if dtype.itemsize < 4 else 1000.0),
    "wide": _generate_wide,
    "tiny": _generate_tiny,
    "zeros": lambda shape, _, __: np.zeros(shape),
    "ties": lambda shape, _, rng: np.resize(rng.permutation(np.resize(TIED_VALUES, max(prod(shape), 5))), shape),
    "signed zeros": _generate_signed_zeros,
}
"""The generator of each finite kind but extremes, before its numbers are cast to the type."""


def extreme_values(dtype: DType, *, selection_only: bool) -> Array:
    """The extremes of a type: its largest numbers, half of them, and the least normal and subnormal ones.

    For arithmetic, the fourth root of the largest is used instead, so that squares and sums of squares stay finite.
    Whether `(x * w) * k` overflows depends on the order, which a correct rewrite that only rounds differently may
    change, such as folding a BatchNormalization into a Conv.
    """
    top, normal, least = float_limits(dtype)
    top = top if selection_only else top**0.25
    return np.array([top, -top, normal, -normal, top / 2, -top / 2, least, -least])


def float_limits(dtype: DType) -> FloatLimits:
    """The limits of a float type."""
    info = cast("Any", ml_dtypes.finfo(dtype))
    return FloatLimits(float(info.max), float(info.smallest_normal), float(info.smallest_subnormal))


def _with_special_values(normal: Array, values: Array, rng: np.random.Generator) -> Array:
    """`normal` with some of `values` in its last half, at least one; the first rows do not change."""
    flat: Array = np.array(normal.reshape(-1))
    places = rng.permutation(np.arange(flat.size // 2, flat.size))
    places = places[: max(flat.size // SPECIAL_ONE_IN, min(flat.size, 1))]
    with np.errstate(all="ignore"):
        flat[places] = np.asarray(np.resize(values, places.size)).astype(normal.dtype)
    return flat.reshape(normal.shape)


def to_finite(a: Any, dtype: DType) -> Array:
    """`a` in the type, clipped to its largest numbers; 1 replaces numbers whose sign or zero the type lacks."""
    if dtype.kind == "c":
        return _cast(a, dtype)
    top = float_limits(dtype).max
    fitted = _cast(np.clip(a, -top, top), dtype)
    wrong = ~np.isfinite(fitted.astype(np.float64))
    return np.where(wrong, np.ones((), dtype), fitted).astype(dtype) if wrong.any() else fitted


def _cast(a: Any, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(a).astype(dtype)
