"""Numbers on, beside and between the boundaries of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from .floats import finite
from .integers import Range

Array = np.ndarray[Any, Any]
Points = tuple[float, ...]


def around(points: Points, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """Floats at each point, one step below, one above, and a little to both sides, in random places."""
    at = finite(np.array(points), dtype)
    below, above = (np.nextafter(at, finite(np.full(at.shape, far), dtype)) for far in (-np.inf, np.inf))
    wide = np.abs(at.astype(np.float64)) + 1.0
    near, far = (finite(at.astype(np.float64) + side * wide * 0.01, dtype) for side in (-1, 1))
    return _placed(np.stack([at, below, above, near, far]), shape, rng)


def around_integers(points: Points, shape: tuple[int, ...], rng: np.random.Generator, reach: Range) -> Array:
    """Integers at each point, next to it and a little further off."""
    down, up = np.floor(points), np.ceil(points)
    return _integers(_placed(np.stack([down, up, down - 1, up + 1, down - 5, up + 5]), shape, rng), reach)


def _placed(table: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """The numbers of the table in random places, those of its first rows first where there is not room for all."""
    size = int(np.prod(shape))
    rows = [rng.permutation(row) for row in table]
    return rng.permutation(np.resize(np.concatenate(rows), size)).reshape(shape)


def region(
    points: Points, number: int, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator
) -> Array:
    """Floats that are all in one place: below the first point, at it, between it and the next, and so on."""
    index, is_at = divmod(number % (2 * len(points) + 1), 2)
    if is_at:
        return np.full(shape, finite(np.array(points[index]), dtype))
    return finite(_between(points, index, np.asarray(rng.uniform(0.1, 0.9, shape))), dtype)


def region_of_integers(
    points: Points, number: int, shape: tuple[int, ...], rng: np.random.Generator, reach: Range
) -> Array:
    """As `region`, in whole numbers."""
    index, is_at = divmod(number % (2 * len(points) + 1), 2)
    if is_at:
        return _integers(np.full(shape, points[index]), reach)
    found = _between(points, index, np.asarray(rng.uniform(0.1, 0.9, shape)))
    return _integers(np.floor(found) if index == 0 else np.ceil(found), reach)


def _between(points: Points, index: int, share: Array) -> Array:
    """Between the point before `index` and that at it; beyond the first and last as far as these are from 0, and 1."""
    if index == 0:
        return points[0] - share * (abs(points[0]) + 1.0)
    if index == len(points):
        return points[-1] + share * (abs(points[-1]) + 1.0)
    return points[index - 1] + share * (points[index] - points[index - 1])


def _integers(a: Array, reach: Range) -> Array:
    least, most = reach
    whole = [min(max(int(n), least), most) for n in a.reshape(-1)]
    return np.array(whole, np.uint64 if most > np.iinfo(np.int64).max else np.int64).reshape(a.shape)
