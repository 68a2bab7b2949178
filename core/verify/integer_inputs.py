"""Generation of integers of each kind: within the range of the type if they are free, otherwise by their role."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from .dim_expressions import Sizes, extent
from .float_inputs import shuffled
from .input_roles import InputRole

Array = np.ndarray[Any, Any]
Range = tuple[int, int]

DEFAULT_INDEX_BOUND = 4  # of indices into an unknown extent; if it is too large, restricted inputs follow
RESTRICTED_RANGES: dict[str, tuple[Range, Range, Range]] = {
    "divisor": ((1, 2), (1, 1), (-1, -1)), "step": ((1, 1), (1, 1), (-1, -1)), "extent": ((1, 2), (1, 1), (2, 2)),
    "count": ((1, 2), (1, 1), (2, 2)), "trips": ((2, 6), (0, 0), (1, 1)),
}  # fmt: skip
# The least and greatest number by role and kind; "" means all other kinds.
ROLE_RANGES: dict[str, dict[str, Range]] = {
    "free": {"": (0, 10), "negative": (-10, -1), "large": (100, 1000), "zeros": (0, 0), "ties": (0, 1)},
    "truth": {"": (0, 1), "zeros": (0, 0), "negative": (1, 1)},
    "share": {"": (0, 1), "zeros": (0, 0)},
    "trips": {"": (1, 3), "zeros": (0, 0), "large": (17, 17), "ties": (0, 1)},
    "extent": {"": (1, 2), "zeros": (1, 1), "large": (2, 3)},
    "scales": {"": (1, 2), "zeros": (1, 1)},
    "pads": {"": (0, 2), "zeros": (0, 0), "large": (1, 2), "ties": (0, 1)},
    "divisor": {"": (1, 10), "zeros": (1, 1), "negative": (-10, -1), "large": (100, 1000), "ties": (1, 2)},
    "shift": {"": (0, 3), "zeros": (0, 0), "large": (4, 7), "ties": (0, 1)},
    "start": {"": (0, 1), "zeros": (0, 0), "negative": (-2, -1), "ties": (0, 0)},
    "end": {"": (2, 3), "zeros": (1, 1), "negative": (-1, -1), "large": (100, 1000)},
    "limit": {"": (2, 5), "zeros": (1, 1), "negative": (-5, -3), "large": (20, 40)},
    "step": {"": (1, 2), "zeros": (1, 1), "negative": (-1, -1)},
}


def generate_integers(
    role: InputRole,
    kind: str,
    shape: tuple[int, ...],
    sizes: Sizes,
    rng: np.random.Generator,
    limits: Range,
    restriction: int,
) -> Array:
    """Integers within `limits` of their type. With `restriction`, 0 and 1, then one of them alone."""
    arranged = _structured_integers(role, kind, prod(shape), sizes, rng) if restriction < 2 else None
    if arranged is not None:
        return np.clip(arranged, *limits).reshape(shape)
    if restriction:
        bounds = RESTRICTED_RANGES.get(role.kind, ((0, 1), (0, 0), (1, 1)))[restriction - 1]
    else:
        bounds = _role_range(role, kind, sizes, limits)
    low, high = (min(max(n, limits[0]), limits[1]) for n in bounds)
    drawn = np.asarray(rng.integers(low, high, shape, endpoint=True, dtype=_widest_dtype(limits)))
    if role.kind == "index" and kind == "large" and not restriction and drawn.size > 1:
        evenly_spaced = np.linspace(index_limits(role, sizes, limits)[1], 0, drawn.size)
        return evenly_spaced.round().astype(np.int64).reshape(shape)
    if role.kind == "index":
        drawn.reshape(-1)[:1] = low
    return np.where(drawn == 0, 1, drawn).astype(drawn.dtype) if role.kind in {"divisor", "step"} else drawn


def generate_extreme_integers(shape: tuple[int, ...], rng: np.random.Generator, limits: Range) -> Array:
    """Small numbers with the extremes of the type among them."""
    least, most = limits
    ends = np.array([most, least, most - 1, least + 1, most // 2, most // 2 + 1], _widest_dtype(limits))
    flat = rng.integers(0, min(10, most), prod(shape), endpoint=True, dtype=_widest_dtype(limits))
    places = rng.permutation(flat.size)[: max(flat.size // 4, min(flat.size, 2))]
    flat[places] = np.resize(ends, places.size)
    return flat.reshape(shape)


def integers_near_points(
    points: tuple[float, ...], shape: tuple[int, ...], rng: np.random.Generator, limits: Range
) -> Array:
    """Integers at each point and at distances of 1 and 5, in random order."""
    down, up = np.floor(points), np.ceil(points)
    return clipped_integers(shuffled(np.stack([down, up, down - 1, up + 1, down - 5, up + 5]), shape, rng), limits)


def clipped_integers(a: Array, limits: Range) -> Array:
    """Floats as integers within `limits`."""
    return np.array([min(max(int(n), limits[0]), limits[1]) for n in a.reshape(-1)], _widest_dtype(limits)).reshape(
        a.shape
    )


def _widest_dtype(limits: Range) -> type[np.integer[Any]]:
    return np.uint64 if limits[1] > np.iinfo(np.int64).max else np.int64


def integer_limits(dtype: np.dtype[Any]) -> Range:
    """The least and greatest number of an integer type."""
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def index_limits(role: InputRole, sizes: Sizes, limits: Range) -> Range:
    """The least and greatest index that role and type allow."""
    bound = extent(role.bound, sizes) if role.bound is not None else DEFAULT_INDEX_BOUND
    top = min(max(bound - 1, 0), limits[1])
    return (max(-top - 1, limits[0]) if role.signed and role.bound is not None else 0), top


def _role_range(role: InputRole, kind: str, sizes: Sizes, limits: Range) -> Range:
    """The least and greatest integer to generate."""
    if role.kind == "index":
        least, top = index_limits(role, sizes, limits)
        if kind == "negative" and least < 0:
            return least, -1
        return {"zeros": (0, 0), "large": (top, top), "ties": (0, min(1, top))}.get(kind, (0, top))
    if role.kind == "count":
        top = max(extent(role.bound, sizes), 1) if role.bound is not None else 2
        return {"zeros": (1, 1), "large": (top, top), "ties": (1, min(2, top))}.get(kind, (1, top))
    ranges = ROLE_RANGES.get(role.kind)
    if ranges is None or role.kind == "free":
        return _free_range(kind, limits)
    unsigned = kind == "negative" and (limits[0] == 0 or (role.kind in {"start", "limit", "end"} and not role.signed))
    return ranges[""] if unsigned else ranges.get(kind, ranges[""])


def _free_range(kind: str, limits: Range) -> Range:
    """The range of a free integer of a kind; an unsigned type has numbers up to 255 instead of negative ones."""
    least, most = limits
    low, high = ROLE_RANGES["free"].get(kind, ROLE_RANGES["free"][""])
    if kind == "normal" and limits == (0, 255):
        return limits
    if kind == "negative" and least == 0:
        return max(min(most, 255) - 9, 1), min(most, 255)
    return max(min(low, most // 2 + 1), least), min(high, most)


def _structured_integers(
    role: InputRole, kind: str, count: int, sizes: Sizes, rng: np.random.Generator
) -> Array | None:
    """Numbers that fit together as `role` requires, as far as shapes are known; None if they are independent."""
    dims = None if role.dims is None else [extent(d, sizes) if d is not None else None for d in role.dims]
    known = None if dims is None or None in dims else [d for d in dims if d is not None]
    if role.kind in {"axes", "new axes", "unit axes"}:
        return _axis_permutation(role, kind, count, dims, rng)
    if known is None:
        return None
    if role.kind == "parts" and count:
        return _split_sizes(known[0], count, kind, rng)
    if role.kind == "factors":
        return _reshape_target(known, count, kind, rng)
    return _broadcast_target(known, count, kind, rng) if role.kind == "stretch" else None


def _axis_permutation(
    role: InputRole, kind: str, count: int, dims: list[int | None] | None, rng: np.random.Generator
) -> Array:
    """Distinct axes; those of extent 1 for a Squeeze. Counted from the end in the negative kind."""
    rank = (len(dims) if dims is not None else count) + (count if role.kind == "new axes" else 0)
    fit = [a for a, d in enumerate(dims or ()) if d in {1, None}] if role.kind == "unit axes" else list(range(rank))
    fit = fit if len(fit) >= count else list(range(max(rank, count)))
    if kind in {"zeros", "negative", "large"}:
        chosen = np.array(fit[len(fit) - count :] if kind == "large" else fit[:count], np.int64)
    else:
        chosen = rng.permutation(np.array(fit, np.int64))[:count]
    return chosen - rank if kind == "negative" and role.signed else chosen


def _split_sizes(total: int, count: int, kind: str, rng: np.random.Generator) -> Array:
    """Numbers with the sum `total`; equal ones, or all in the last, in some kinds."""
    if kind == "zeros":
        return np.array([0] * (count - 1) + [total])
    if kind == "ties" and total % count == 0:
        return np.full(count, total // count)
    least = 1 if total >= count else 0
    cuts = np.sort(rng.integers(0, total - least * count, count - 1, endpoint=True))
    return np.diff(np.array([0, *cuts, total - least * count])) + least


def _reshape_target(dims: list[int], count: int, kind: str, rng: np.random.Generator) -> Array:
    """Extents with as many elements as `dims`; with a -1, or all copied, in some kinds."""
    if kind == "zeros" and count == len(dims):
        return np.zeros(count, np.int64)  # 0 copies a dim
    found, total, divisor = np.ones(count, np.int64), prod(dims), 2
    while total > 1 and count:
        while total % divisor:
            divisor += 1
        found[0 if kind == "large" else rng.integers(count)] *= divisor
        total //= divisor
    if kind == "negative" and count and prod(dims):
        found[rng.integers(count)] = -1
    return found


def _broadcast_target(dims: list[int], count: int, kind: str, rng: np.random.Generator) -> Array:
    """A shape that broadcasts with `dims`: 1 or the same extent, and up to 3 where that is 1."""
    aligned = ([1] * count + dims)[-count:] if count else []
    free = {"zeros": (1, 1), "large": (2, 3)}.get(kind, (1, 2))
    own = [d if kind == "large" else rng.choice([1, d]) for d in aligned]
    return np.array([rng.integers(*free, endpoint=True) if d == 1 else o for d, o in zip(aligned, own, strict=True)])
