"""Floats of each kind, in the reach of their type."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, cast

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

TIES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
MEDLEY = "medley"
PARTS = ("negative", "tiny", "zeros", "ties", "signed zeros", "normal")  # of a medley, in runs of equal length
NON_FINITE = {"nan": (np.nan,), "inf": (np.inf, -np.inf)}
FEW_ROWS = 8
LEAST_POSITIVE = 0.01
ONE_IN = 8  # elements of an extreme, NaN or infinite draw that are no normal numbers


class Ends(NamedTuple):
    """The largest, least normal and least subnormal number of a type."""

    top: float
    normal: float
    least: float


def floats(
    kind: str, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, *, only_chosen: bool = False
) -> Array:
    """Numbers of a kind; complex ones have parts of that kind. Non-finite only in the kinds `nan` and `inf`."""
    if dtype.kind == "c":
        part = np.dtype(np.float64 if dtype.itemsize == 16 else np.float32)
        with np.errstate(all="ignore"):
            real, imaginary = (floats(kind, shape, part, rng, only_chosen=only_chosen) for _ in range(2))
            return _fitted((real + 1j * imaginary) if kind not in NON_FINITE else real + 0j, dtype)
    if kind in NON_FINITE:
        return _sprinkled(floats("normal", shape, dtype, rng), np.array(NON_FINITE[kind]), rng)
    if kind == MEDLEY:
        return _medley(shape, dtype, rng)
    if kind == "extremes":
        return _sprinkled(floats("normal", shape, dtype, rng), extremes(dtype, only_chosen=only_chosen), rng)
    return finite(_raw(kind, shape, dtype, rng), dtype)


def shares(kind: str, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """Numbers between 0 and 1, as probabilities, ratios and thresholds are: small, large, or zeros in those kinds."""
    low, high = {"negative": (0.01, 0.1), "large": (0.9, 0.99), "zeros": (0.0, 0.0)}.get(kind, (0.1, 0.9))
    return finite(np.asarray(rng.uniform(low, high, shape)), dtype)


def can_hold(kind: str, dtype: np.dtype[Any]) -> bool:
    """Whether the type has a NaN, or infinities, or a negative zero."""
    probe = np.dtype(np.float64) if dtype.kind == "c" else dtype
    with np.errstate(all="ignore"):
        if kind == "nan":
            return bool(np.isnan(np.array(np.nan).astype(probe)))
        if kind == "inf":
            return bool(np.isinf(np.array(np.inf).astype(probe)))
        return kind != "signed zeros" or bool(np.signbit(np.array(-0.0).astype(probe).astype(np.float64)))


def _raw(kind: str, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    if kind == "zeros":
        return np.zeros(shape)
    if kind == "ties":
        return np.resize(rng.permutation(np.resize(TIES, max(prod(shape), TIES.size))), shape)
    if kind == "signed zeros":
        return _signed_zeros(shape, rng)
    if kind == "tiny":
        return _tiny(shape, dtype, rng)
    if kind == "wide":
        return _wide(shape, rng)
    normal = np.asarray(rng.standard_normal(shape))
    scale = 100.0 if dtype.itemsize < 4 else 1000.0
    return normal - 3.0 if kind == "negative" else normal * (scale if kind == "large" else 1.0)


def _wide(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers three times as far apart, above zero in the first half of the rows; in all of them if those are few."""
    drawn = 3.0 * np.asarray(rng.standard_normal(shape))
    if drawn.ndim == 0 or len(drawn) < FEW_ROWS:
        return np.abs(drawn) + LEAST_POSITIVE
    half = len(drawn) // 2
    drawn[:half] = np.abs(drawn[:half]) + LEAST_POSITIVE
    return drawn


def _medley(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """One run of each of the kinds that do not drown the others."""
    runs = np.array_split(np.zeros(prod(shape), dtype), len(PARTS))
    flat = np.concatenate([floats(kind, r.shape, dtype, rng) for kind, r in zip(PARTS, runs, strict=True)])
    return flat.reshape(shape)


def _signed_zeros(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Zeros of both signs, the first one negative, with a few ones between them to multiply and divide by."""
    flat = rng.choice(np.array([-0.0, 0.0, -1.0, 1.0]), shape, p=(0.4, 0.4, 0.1, 0.1)).reshape(-1)
    flat[:2] = (-0.0, 0.0)[: flat.size]
    return flat.reshape(shape)


def _tiny(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """Numbers of both signs whose magnitudes are spread evenly by exponent, from the least subnormal to 1e-6."""
    low = ends(dtype).least
    high = max(1e-6, 4.0 * low)
    magnitude = np.exp2(np.asarray(rng.uniform(np.log2(low), np.log2(high), shape)))
    return rng.choice(np.array([-1.0, 1.0]), shape) * np.maximum(magnitude, low)


def extremes(dtype: np.dtype[Any], *, only_chosen: bool) -> Array:
    """The ends of a type: its largest numbers, half of them, and the least normal and subnormal ones.

    Where they are computed with, the fourth root of the largest stands in its place: squares and sums of squares
    stay finite. Whether `(x * w) * k` overflows depends on the order, which a rewrite that only rounds
    differently may change, as when a BatchNormalization is folded into a Conv; the wrong and the right ones
    could not be told apart.
    """
    top, normal, least = ends(dtype)
    top = top if only_chosen else top**0.25
    return np.array([top, -top, normal, -normal, top / 2, -top / 2, least, -least])


def ends(dtype: np.dtype[Any]) -> Ends:
    """The ends of a float type."""
    info = cast("Any", ml_dtypes.finfo(dtype))
    return Ends(float(info.max), float(info.smallest_normal), float(info.smallest_subnormal))


def _sprinkled(normal: Array, values: Array, rng: np.random.Generator) -> Array:
    """`normal` with some of `values` in its last half, at least one: the first rows of a batch stay untouched."""
    flat: Array = np.array(normal.reshape(-1))
    places = rng.permutation(np.arange(flat.size // 2, flat.size))
    places = places[: max(flat.size // ONE_IN, min(flat.size, 1))]
    with np.errstate(all="ignore"):
        flat[places] = np.asarray(np.resize(values, places.size)).astype(normal.dtype)
    return flat.reshape(normal.shape)


def finite(a: Array, dtype: np.dtype[Any]) -> Array:
    """`a` in the type; what it cannot hold becomes its largest number, and 1 where it has no sign or no zero."""
    if dtype.kind == "c":
        return _fitted(a, dtype)
    top = ends(dtype).top
    fitted = _fitted(np.clip(a, -top, top), dtype)
    wrong = ~np.isfinite(fitted.astype(np.float64))
    return np.where(wrong, np.ones((), dtype), fitted).astype(dtype) if wrong.any() else fitted


def _fitted(a: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(a).astype(dtype)
