"""Generation of numbers of each kind: floats within the range of their type, integers by their role."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from .dim_expressions import Sizes, extent
from .input_specs import InputRole
from .noise import float_info, is_float

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
DType = np.dtype[Any]

TIED_VALUES = (-0.0, 0.0, -1.0, -0.5, 0.5, 1.0)
MIXED = "mixed"
MIXED_PARTS = 6  # runs of equal length
NONFINITE_VALUES = {"nan": (np.nan,), "inf": (np.inf, -np.inf)}
MIN_ROWS_TO_HALVE = 8
MIN_POSITIVE = 0.01
UNKNOWN_INDEX_RANGES = ((-1, 0), (-2, 1), (-1, -1), (0, 32), (-4, 3), (-8, 7), (0, 128))
"""Ranges of indices into an unknown extent."""
SPECIAL_NUMBERS = (0.0, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-3, 100.0, -100.0)
SPECIAL_INTEGERS = (0, 0, 1, 1, -1, 2, -2, 3, 7, 8, -8, 127, 128, 255, 256, -129, 32767, 65536)
MAX_ADJACENT_STEP = 0.003  # relative, of adjacent floats
ROW_OFFSETS = (10.0, 100.0)  # of floats with a spread of 1
MAX_HALF_POINT = 256.0
TINY_SHARES, TINY_BITS = (1.0, 0.75, 0.45), 8.0  # of the exponent of the smallest number, and the bits above that
FACTORS = np.array([*[1.0] * 8, -1.0, 2.0, 3.0, 0.5])  # of constants, which are used more often than their multiples
OFFSETS = np.array([*[0.0] * 6, 1.0, -1.0, 2.0, 0.5])
Points = Sequence[Sequence[float]]
"""Groups of points; all groups are equally likely."""
ONE_MAGNITUDE_BITS = (2.0, 15.0)  # of 16-bit floats of one magnitude
SPECIAL_ONE_IN = 8  # elements of an extreme, NaN or infinite array that are not normal numbers: one in this many


def generate_floats(
    kind: str, shape: Shape, dtype: DType, rng: np.random.Generator, *, selection_only: bool = False
) -> Array:
    """Numbers of a kind, finite except for `nan` and `inf`; both parts of complex numbers are of that kind."""
    if dtype.kind == "c":
        part = np.dtype(np.float64 if dtype.itemsize == 16 else np.float32)
        with np.errstate(all="ignore"):
            real, imaginary = (generate_floats(kind, shape, part, rng, selection_only=selection_only) for _ in range(2))
            return _cast((real + 1j * imaginary) if kind not in NONFINITE_VALUES else real + 0j, dtype)
    if kind == "extremes" or kind in NONFINITE_VALUES:
        normal = generate_floats("normal", shape, dtype, rng)
        special = NONFINITE_VALUES.get(kind) or extreme_values(dtype, selection_only=selection_only)
        return _with_special_values(normal, np.array(special), rng)
    return to_finite(FINITE_FLOATS[kind](shape, dtype, rng), dtype)


def floats_near_points(points: tuple[float, ...], shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """Floats at each point, one step below and above, and 1 % to both sides, in random order."""
    at = to_finite(np.array(points), dtype)
    below, above = (np.nextafter(at, to_finite(np.full(at.shape, far), dtype)) for far in (-np.inf, np.inf))
    wide = np.abs(at.astype(np.float64)) + 1.0
    near, far = (to_finite(at.astype(np.float64) + side * wide * 0.01, dtype) for side in (-1, 1))
    return shuffled(np.stack([at, below, above, near, far]), shape, rng)


def shuffled(table: Array, shape: Shape, rng: np.random.Generator) -> Array:
    """The numbers of the table in random order; its first rows have priority if there is not enough room."""
    rows = [rng.permutation(row) for row in table]
    return rng.permutation(np.resize(np.concatenate(rows), prod(shape))).reshape(shape)


@cache
def kinds_without_special_values(dtype: DType) -> frozenset[str]:
    """The kinds whose special values the type lacks: NaN or infinities."""
    probes = {"nan": (np.nan, np.isnan), "inf": (np.inf, np.isinf)}
    with np.errstate(all="ignore"):
        in_dtype = {kind: _cast(value, dtype).astype(np.complex128).real for kind, (value, _) in probes.items()}
    return frozenset(kind for kind, (_, has) in probes.items() if not has(in_dtype[kind]))


def _generate_wide(shape: Shape, _: DType, rng: np.random.Generator) -> Array:
    """Numbers with three times the spread, positive in the first half of the rows, or in all rows if there are few."""
    drawn = 3.0 * np.asarray(rng.standard_normal(shape))
    if drawn.ndim == 0 or len(drawn) < MIN_ROWS_TO_HALVE:
        return np.abs(drawn) + MIN_POSITIVE
    half = len(drawn) // 2
    drawn[:half] = np.abs(drawn[:half]) + MIN_POSITIVE
    return drawn


def _generate_mixed(shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """Runs of numbers below zero, large and tiny numbers, zeros, ties with zeros of both signs, and normal numbers.

    Tiny numbers have both signs and log-uniform magnitudes from the smallest subnormal to 1e-6. The runs have equal
    lengths and random order, so that the runs of two inputs meet in different pairs each time.
    """
    size = prod(shape)
    drawn = rng.standard_normal(size)
    low = float(float_info(dtype).smallest_subnormal)
    tiny = np.exp2(rng.uniform(np.log2(low), np.log2(max(1e-6, 4.0 * low)), size))
    parts = (
        drawn - 3.0, drawn * (100.0 if dtype.itemsize < 4 else 1000.0), np.copysign(tiny, drawn), np.zeros(size),
        rng.choice(TIED_VALUES, size), drawn,
    )  # fmt: skip
    part_of = np.arange(size) * MIXED_PARTS // max(size, 1)
    return np.choose(rng.permutation(MIXED_PARTS)[part_of], parts).reshape(shape)


FINITE_FLOATS: dict[str, Callable[[Shape, DType, np.random.Generator], Any]] = {
    "normal": lambda shape, _, rng: rng.standard_normal(shape),
    "negative": lambda shape, _, rng: rng.standard_normal(shape) - 3.0,
    "wide": _generate_wide,
    "mixed": _generate_mixed,
    "zeros": lambda shape, _, __: np.zeros(shape),
}
"""The generators of the finite kinds except extremes; numbers are cast to the type afterwards."""


def extreme_values(dtype: DType, *, selection_only: bool) -> Array:
    """The extremes of a type: its largest numbers, half of them, and the smallest normal and subnormal ones.

    For arithmetic, the fourth root of the largest is used instead, so that squares and sums of squares stay finite.
    Whether `(x * w) * k` overflows depends on the order, and a correct rewrite that only rounds differently may change
    the order, such as by folding a BatchNormalization into a Conv.
    """
    info = float_info(dtype)
    top, normal, least = (float(n) for n in (info.max, info.smallest_normal, info.smallest_subnormal))
    top = top if selection_only else top**0.25
    return np.array([top, -top, normal, -normal, top / 2, -top / 2, least, -least])


def _with_special_values(normal: Array, values: Array, rng: np.random.Generator) -> Array:
    """`normal` with at least one of `values` in its last half; the first rows do not change."""
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
    top = float(float_info(dtype).max)
    fitted = _cast(np.clip(a, -top, top), dtype)
    wrong = ~np.isfinite(fitted.astype(np.float64))
    return np.where(wrong, np.ones((), dtype), fitted).astype(dtype) if wrong.any() else fitted


def _cast(a: Any, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(a).astype(dtype)


Range = tuple[int, int]

DEFAULT_INDEX_BOUND = 4  # of indices into an unknown extent; if it is too large, restricted inputs follow
RESTRICTED_RANGES: dict[str, tuple[Range, Range, Range]] = {
    "divisor": ((1, 2), (1, 1), (-1, -1)), "step": ((1, 1), (1, 1), (-1, -1)), "extent": ((1, 2), (1, 1), (2, 2)),
    "count": ((1, 2), (1, 1), (2, 2)), "trips": ((2, 6), (0, 0), (1, 1)),
}  # fmt: skip
# The least and greatest number by role and kind; "" means all other kinds.
ROLE_RANGES: dict[str, dict[str, Range]] = {
    "free": {"": (0, 10), "negative": (-10, -1), "mixed": (100, 1000), "zeros": (0, 0)},
    "mask": {"": (0, 1), "zeros": (0, 0), "negative": (1, 1)},
    "truth": {"": (0, 1), "zeros": (0, 0), "negative": (1, 1)},
    "share": {"": (0, 1), "zeros": (0, 0)},
    "trips": {"": (1, 3), "zeros": (0, 0), "mixed": (17, 17)},
    "extent": {"": (1, 2), "zeros": (1, 1), "mixed": (2, 3)},
    "scales": {"": (1, 2), "zeros": (1, 1)},
    "pads": {"": (0, 2), "zeros": (0, 0), "mixed": (1, 2), "negative": (-1, 1)},
    "position": {"": (0, 1), "zeros": (0, 0), "mixed": (2, 2), "negative": (-1, -1)},
    "divisor": {"": (1, 10), "zeros": (1, 1), "negative": (-10, -1), "mixed": (100, 1000)},
    "shift": {"": (0, 3), "zeros": (0, 0), "mixed": (4, 7)},
    "start": {"": (0, 1), "zeros": (0, 0), "negative": (-2, -1)},
    "end": {"": (2, 3), "zeros": (1, 1), "negative": (-1, -1), "mixed": (100, 1000)},
    "region": {"": (0, 5), "zeros": (0, 0), "negative": (-5, -1), "mixed": (-40, 40)},  # RoiAlign samples each unit
    "limit": {"": (2, 5), "zeros": (1, 1), "negative": (-5, -3), "mixed": (20, 40)},
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
    if role.kind == "index" and kind == MIXED and not restriction and drawn.size > 1:
        evenly_spaced = np.linspace(index_limits(role, sizes, limits)[1], 0, drawn.size)
        return evenly_spaced.round().astype(np.int64).reshape(shape)
    if role.kind == "index":
        drawn.reshape(-1)[:1] = low
    return np.where(drawn == 0, 1, drawn).astype(drawn.dtype) if role.kind in {"divisor", "step"} else drawn


def generate_extreme_integers(shape: tuple[int, ...], rng: np.random.Generator, limits: Range) -> Array:
    """Small numbers and the extremes of the type."""
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


def nonfinite_floats(shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """NaN, infinities, and numbers at which functions change or at which operands interact."""
    drawn = np.asarray(rng.choice(np.array([*SPECIAL_NUMBERS, np.inf, -np.inf, np.nan]), shape))
    normal = np.asarray(rng.standard_normal(shape))
    return _cast(np.where(np.asarray(rng.uniform(0, 1, shape)) < 0.2, normal, drawn), dtype)


def special_integers(shape: Shape, rng: np.random.Generator, limits: Range) -> Array:
    """Small integers, powers of two and numbers next to these; all elements differ."""
    within = [n for n in SPECIAL_INTEGERS if limits[0] < n <= limits[1]]
    return np.asarray(rng.choice(np.array(within, _widest_dtype(limits)), shape))


def floats_of_all_magnitudes(shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """Floats of both signs with log-uniform magnitudes from 0.01 to 1000.

    Half of the arrays of 16-bit floats have one sign and magnitude, from 2 to half the largest float16: sums overflow.
    """
    if dtype.itemsize == 2 and rng.random() < 0.5:
        top = 2.0 ** float(rng.uniform(*ONE_MAGNITUDE_BITS))
        return to_finite(float(rng.choice([-1.0, 1.0])) * top * np.asarray(rng.uniform(0.5, 1.0, shape)), dtype)
    magnitude = 10.0 ** np.asarray(rng.uniform(-2, 3, shape))
    return to_finite(np.asarray(rng.choice(np.array([-1.0, 1.0]), shape)) * magnitude, dtype)


def floats_with_offsets(shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """Floats with a spread of 1 around an offset for each row, or for each channel if there are more than two axes."""
    rows = shape[: min(2, max(len(shape) - 1, 0))]
    offsets = np.asarray(rng.choice(np.array(ROW_OFFSETS), rows)) * rng.choice(np.array([-1.0, 1.0]), rows)
    drawn = np.asarray(rng.standard_normal(shape))
    return to_finite(drawn + offsets.reshape(rows + (1,) * (len(shape) - len(rows))), dtype)


def tiny_floats(shape: Shape, dtype: DType, rng: np.random.Generator, variant: int) -> Array:
    """Floats of both signs within a few powers of two: subnormal, or with squares or fourth powers of 0."""
    least = np.log2(float(float_info(dtype).smallest_subnormal))
    exponents = least * TINY_SHARES[variant % len(TINY_SHARES)] + TINY_BITS * np.asarray(rng.random(shape))
    return to_finite(np.copysign(np.exp2(exponents), rng.standard_normal(shape)), dtype)


def sparse_floats(shape: Shape, dtype: DType, rng: np.random.Generator, preferred: Sequence[int] = ()) -> Array:
    """Floats that are zero except in one channel of each row, which shows the weights of that channel alone.

    The channels are the last axis, or the second of more than two; only `preferred` ones are used if there are any.
    """
    axis = len(shape) - 1 if len(shape) < 3 or rng.random() < 0.5 else 1
    if axis < 0:
        return generate_floats("normal", shape, dtype, rng)
    rows = tuple(1 if a == axis else n if a in {0, axis - 1} else 1 for a, n in enumerate(shape))
    channels = np.asarray(rng.integers(max(shape[axis], 1), size=rows))
    if known := [p for p in preferred if p < shape[axis]]:
        channels = np.asarray(rng.choice(np.array(known), rows))
    places = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return np.where(places == channels, generate_floats("normal", shape, dtype, rng), np.zeros((), dtype)).astype(dtype)


def one_hot_rows(shape: Shape, rng: np.random.Generator) -> Array:
    """Bools with one true element in each row, or one in total."""
    extent = prod(shape) if rng.random() < 0.5 else (shape[-1] if shape else 1)
    rows = prod(shape) // max(extent, 1)
    return np.asarray(np.arange(extent) == rng.integers(max(extent, 1), size=(rows, 1))).reshape(shape)


def adjacent_floats(shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """Floats within three equal steps of one of two numbers; steps are as small as the type's, or up to 0.3 %."""
    centres: Array = to_finite(rng.standard_normal(2), dtype).astype(np.float64)
    steps = np.asarray(rng.integers(0, 4, shape)).astype(np.float64)
    return to_finite(np.asarray(rng.choice(centres, shape)) * (1.0 + _adjacent_step(dtype, rng) * steps), dtype)


def _draw_points(points: Points, shape: Shape, rng: np.random.Generator, limits: tuple[float, float]) -> Array | None:
    """Some of the points within limits; None if there are none."""
    within = [np.array([p for p in group if limits[0] <= p <= limits[1]]) for group in points]
    groups = [np.asarray(rng.choice(group, shape)) for group in within if group.size]
    return np.choose(rng.integers(len(groups), size=shape), groups) if groups else None


def floats_near_constants(points: Points, shape: Shape, dtype: DType, rng: np.random.Generator) -> Array:
    """Floats at some of the points, one step or 1 away from them, and at small multiples.

    Points are limited to the extremes used in arithmetic, or to 256 for 16-bit floats.
    """
    limit = max(float(float_info(dtype).max) ** 0.25, MAX_HALF_POINT)
    drawn = _draw_points(points, shape, rng, (-limit, limit))
    if drawn is None:
        return generate_floats("normal", shape, dtype, rng)
    at = to_finite(drawn * rng.choice(FACTORS, shape), dtype)
    moved = to_finite(at.astype(np.float64) + rng.choice(OFFSETS, shape), dtype)
    target = to_finite(np.asarray(rng.choice(np.array([-1.0, 0.0, 1.0]), shape)) * limit, dtype)
    stepped = np.nextafter(at, target)
    return np.where(rng.random(shape) < 0.25, stepped, moved).astype(dtype)


def integers_near_constants(points: Points, shape: Shape, rng: np.random.Generator, limits: Range) -> Array | None:
    """Integers at some of the points, 1 and 2 away, and at small multiples; None if none are within limits."""
    drawn = _draw_points(points, shape, rng, limits)
    if drawn is None:
        return None
    return clipped_integers(np.trunc(drawn * rng.choice(FACTORS, shape)) + rng.choice(OFFSETS, shape), limits)


def integers_of_all_magnitudes(shape: Shape, rng: np.random.Generator, limits: Range) -> Array:
    """Integers with log-uniform magnitudes, except the lowest number, whose quotient by -1 overflows."""
    magnitude = np.exp2(np.asarray(rng.uniform(0, np.log2(float(limits[1])), shape)))
    signs = rng.choice(np.array([-1.0, 1.0, 1.0] if limits[0] < 0 else [1.0]), shape)
    return clipped_integers(np.trunc(magnitude) * signs, (max(limits[0] + 1, -limits[1]), limits[1]))


def adjacent_integers(shape: Shape, rng: np.random.Generator, limits: Range) -> Array:
    """Integers within 4 of one number, often one that a float of 16 or 32 bits cannot represent."""
    top = float(np.log2(float(limits[1])))
    centre = int(2.0 ** rng.uniform(min(11.0, top / 2), top)) if rng.random() < 0.5 else int(2.0 ** min(24.0, top - 1))
    centre = min(centre, limits[1] - 4) | 1
    sign = -1 if limits[0] < 0 and rng.random() < 0.25 else 1
    return sign * np.asarray(rng.integers(centre - 1, centre + 3, shape, endpoint=True, dtype=_widest_dtype(limits)))


def far_indices(shape: Shape, bound: int | None, rng: np.random.Generator, variant: int) -> Array:
    """Indices into an extent, which may be unknown, that count from the end, or some of which are out of range."""
    n = bound or 0
    ranges = ((-2 * n, 2 * n - 1), (-1, n), (-n, n - 1)) if bound is not None else UNKNOWN_INDEX_RANGES
    low, high = ranges[variant % len(ranges)]
    return np.asarray(rng.integers(low, max(high, low), shape, endpoint=True))


def nearly_equal(a: Array, rng: np.random.Generator) -> Array:
    """`a` with some elements moved: integers by 1, floats by steps of one size, up to 0.3 %."""
    sides = np.asarray(rng.integers(-1, 1, np.shape(a), endpoint=True))
    if a.dtype.kind in "iu":
        low, high = integer_limits(a.dtype)
        return np.where((a > low) & (a < high), a + sides.astype(a.dtype), a).astype(a.dtype)
    if not is_float(a.dtype) or a.dtype.kind == "c":
        return a
    return to_finite(a.astype(np.float64) * (1.0 + _adjacent_step(a.dtype, rng) * sides), a.dtype)


def _adjacent_step(dtype: DType, rng: np.random.Generator) -> float:
    """A log-uniform relative step between the type's step and the largest step of adjacent floats."""
    least = float(float_info(dtype).eps)
    return least * (max(least, MAX_ADJACENT_STEP) / least) ** rng.random()


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
    """The lowest and highest integer to generate."""
    if role.kind == "index":
        least, top = index_limits(role, sizes, limits)
        if kind == "negative" and least < 0:
            return least, -1
        return {"zeros": (0, 0), MIXED: (top, top)}.get(kind, (0, top))
    if role.kind == "count":
        top = max(extent(role.bound, sizes), 1) if role.bound is not None else 2
        return {"zeros": (1, 1), MIXED: (top, top)}.get(kind, (1, top))
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
    """Distinct axes; axes of extent 1 for a Squeeze. Counted from the end in the negative kind."""
    rank = (len(dims) if dims is not None else count) + (count if role.kind == "new axes" else 0)
    fit = [a for a, d in enumerate(dims or ()) if d in {1, None}] if role.kind == "unit axes" else list(range(rank))
    fit = fit if len(fit) >= count else list(range(max(rank, count)))
    if kind in {"zeros", "negative", MIXED}:
        chosen = np.array(fit[len(fit) - count :] if kind == MIXED else fit[:count], np.int64)
    else:
        chosen = rng.permutation(np.array(fit, np.int64))[:count]
    return chosen - rank if kind == "negative" and role.signed else chosen


def _split_sizes(total: int, count: int, kind: str, rng: np.random.Generator) -> Array:
    """Numbers whose sum is `total`; for some kinds they are equal, or all but the last are zero."""
    if kind == "zeros":
        return np.array([0] * (count - 1) + [total])
    if kind == MIXED and total % count == 0:
        return np.full(count, total // count)
    least = 1 if total >= count else 0
    cuts = np.sort(rng.integers(0, total - least * count, count - 1, endpoint=True))
    return np.diff(np.array([0, *cuts, total - least * count])) + least


def _reshape_target(dims: list[int], count: int, kind: str, rng: np.random.Generator) -> Array:
    """Extents with as many elements as `dims`; for some kinds, one is -1 or all are copied."""
    if kind == "zeros" and count == len(dims):
        return np.zeros(count, np.int64)  # 0 copies a dim
    found, total, divisor = np.ones(count, np.int64), prod(dims), 2
    while total > 1 and count:
        while total % divisor:
            divisor += 1
        found[0 if kind == MIXED else rng.integers(count)] *= divisor
        total //= divisor
    if kind == "negative" and count and prod(dims):
        found[rng.integers(count)] = -1
    return found


def _broadcast_target(dims: list[int], count: int, kind: str, rng: np.random.Generator) -> Array:
    """A shape that broadcasts with `dims`: 1 or the same extent, or up to 3 where the extent is 1."""
    aligned = ([1] * count + dims)[-count:] if count else []
    free = {"zeros": (1, 1), MIXED: (2, 3)}.get(kind, (1, 2))
    own = [d if kind == MIXED else rng.choice([1, d]) for d in aligned]
    return np.array([rng.integers(*free, endpoint=True) if d == 1 else o for d, o in zip(aligned, own, strict=True)])
