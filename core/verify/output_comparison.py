"""Comparison of one output of the original with the output of a rewritten model, and its tolerances."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from .noise import MIN_SCALE, NO_NOISE, NOISE_MULTIPLE, Noise, float_info, is_float
from .verdict import OutputDifference

Array = np.ndarray[Any, Any]

# The largest error of a float output, as a fraction of its largest magnitude, by type.
MAX_TOLERANCE = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    "complex64": 1e-4,
    "complex128": 1e-9,
}
MAX_TOLERANCE_8_BIT = 0.25  # 8-bit and smaller floats
MIN_TOLERANCE_EPSILONS = 16  # epsilons of the largest magnitude: differences that perturbed inputs do not show
MIN_NOISE_SAMPLE = 16  # elements, under several perturbations each
RARE_ONE_IN = 100  # one element in this many may be excused because another one jumps
MAX_COPIED_BYTES = 1 << 16  # of an output whose bytes are compared first
NO_DIFFERENCE = OutputDifference()
MIN_TOLERANCE_EPSILONS_16_BIT = 4  # the same for 16-bit floats


def compare_bits(a: Array, b: Array) -> OutputDifference:
    """Compare bit for bit; NaNs with any payload are equal, zeros must have the same sign."""
    x, y = to_64_bit(a), to_64_bit(b)
    signs = (np.signbit(x.real) == np.signbit(y.real)) & (np.signbit(x.imag) == np.signbit(y.imag))
    same = (np.isnan(x) & np.isnan(y)) | ((x == y) & signs)
    if same.all():
        return OutputDifference()
    error = float(distances(x, y).max())
    how = f"their bits, by up to {error:.3g}" if error else "non-finite values"
    if _equal_or_both_nan(x, y).all():
        how = "the sign of zero"
    reason = f"{np.count_nonzero(~same)} of {a.size} elements differ in {how}"
    return OutputDifference(error, 0.0, reason, max_relative_error(x, y), max_ulps(a, b))


def compare_floats(a: Array, b: Array, noise: Noise) -> OutputDifference:
    """Compare elements, which must be finite, infinite or NaN alike and differ within the original's noise.

    The scale and the noise come from the elements that differ, so that a mask's -1e9 or an unchanged column of large
    numbers has no influence. An element further off is excused if the original jumps there too, but this may not excuse
    most of an output.
    """
    x, y = to_64_bit(a), to_64_bit(b)
    differs = ~_equal_or_both_nan(x, y)
    magnitude = _scale(x)
    if not differs.any():
        return OutputDifference(magnitude=magnitude) if np.isfinite(x).any() else OutputDifference()
    scale = _scale(x[differs], noise.min_scale)
    pair = _ComparedArrays(
        x,
        y,
        distances(x, y),
        has_same_finiteness(x, y),
        differs,
        noise_sample(x, differs, scale),
        scale,
        noise.min_scale,
    )
    found = pair.within_noise(a, noise)
    return replace(found, relative=max_relative_error(x, y), ulps=max_ulps(a, b), magnitude=magnitude)


def noise_sample(x: Array, differs: Array, scale: float) -> Array:
    """A mask of elements with the same noise as those that differ, the largest of which is `scale`.

    If few elements differ, their perturbations may all cancel, so elements that are no larger are included.
    """
    if np.count_nonzero(differs) >= MIN_NOISE_SAMPLE:
        return differs
    with np.errstate(invalid="ignore"):
        return differs | (np.abs(x) <= scale)


class _ComparedArrays(Struct, frozen=True):
    """The expected and the actual array, with masks and distances, and the `scale` of the elements that differ.

    `sample` are the elements whose noise is measured.
    """

    x: Array
    y: Array
    distances: Array
    is_comparable: Array
    differs: Array
    sample: Array
    scale: float
    min_scale: float

    def within_noise(self, a: Array, noise: Noise) -> OutputDifference:
        """The difference from `a`, with the tolerance of the typical noise if that suffices, otherwise of all noise."""
        error, is_comparable = float(self.distances.max()), bool(self.is_comparable.all())
        least, most = min_tolerance(a.dtype) * self.scale, max_tolerance(a.dtype)
        if is_comparable and error <= least and not (error and noise.is_cheap):
            return OutputDifference(error, least)
        floor = noise.typical_floor() * self.scale
        allowed = min(most * self.scale, max(NOISE_MULTIPLE * floor, least))
        if is_comparable and error <= allowed:
            return OutputDifference(error, allowed, noise_floor=floor)
        moves = [to_64_bit(m) for m in noise.perturbed_like(a)]
        jumps = moves if noise.excuses_jumps else []
        limit = max_excused(a.size)
        cap = most * self.moved_scale(moves)
        found = self.difference(moves, floor, least, cap, jumps, limit, jump_threshold=cap)
        deeper = [(to_64_bit(m), far) for m, far in noise.more_perturbed_like(a)] if found.reason else []
        if not deeper:
            return found
        near = [*moves, *(m for m, far in deeper if far == 1)]
        cap = most * self.moved_scale(near)
        return self.difference(near, floor, least, cap, [*jumps, *(m for m, _ in deeper)], limit)

    def moved_scale(self, perturbed: list[Array]) -> float:
        """The largest magnitude of an element that differs, or that moves in an output of the `perturbed` original."""
        moved = np.logical_or.reduce([self.differs, *(distances(self.x, m) > 0 for m in perturbed)])
        return _scale(self.x[moved], self.min_scale)

    def difference(
        self,
        perturbed: list[Array],
        noise_floor: float,
        least: float,
        cap: float,
        jumps: list[Array],
        limit: int,
        jump_threshold: float | None = None,
    ) -> OutputDifference:
        """The difference given the `perturbed` outputs, with a tolerance from `least` to `cap`.

        Up to `limit` elements may differ where `jumps` do, by more than `jump_threshold`, or by more than the tolerance
        of all elements if it is None. If the original was not perturbed, its noise is unknown, and the tolerance is the
        cap.
        """
        observed = observed_noise_floor(self.x[self.sample], (m[self.sample] for m in perturbed))
        noise_floor = max(observed, noise_floor)
        is_known = bool(perturbed) or noise_floor > 0
        allowed = min(cap, max(NOISE_MULTIPLE * noise_floor, least)) if is_known else cap
        off = ~self.is_comparable | (self.distances > allowed)
        threshold = allowed if jump_threshold is None else jump_threshold
        excused = off & _jump_mask(self.x, self.y, jumps, threshold)
        if jump_threshold is None and self.is_comparable.all() and (off & ~excused).any():
            ways = [distances(self.x, m) for m in jumps]
            if has_similar_jumps(off, self.distances, [(far > allowed, far) for far in ways]):
                excused = off
        count = int(np.count_nonzero(excused))
        moved = ((distances(self.x, m) > threshold) | ~has_same_finiteness(self.x, m) for m in jumps)
        if count > min(limit, _most_jumps(moved)):
            count, excused = 0, np.zeros_like(off)
        off = off & ~excused
        error = float(np.where(excused, 0.0, self.distances).max())
        reason = f"off by up to {error:.3g} (allowed {allowed:.3g})" if off.any() else ""
        if (wild := off & ~self.is_comparable).any():
            reason = describe_nonfinite(self.x, self.y, wild)
        return OutputDifference(error, allowed, reason, noise_floor=noise_floor if is_known else None, excused=count)


def describe_nonfinite(expected: Array, actual: Array, where: Array) -> str:
    """A text about how many elements are not finite as expected, and what they are instead."""
    kinds: list[str] = []
    for values in (actual[where], expected[where]):
        found = np.where(np.isnan(values), "NaN", np.where(values == np.inf, "inf", "finite"))
        kinds.append(" or ".join(np.unique(np.where(values == -np.inf, "-inf", found)).tolist()))
    return f"{np.count_nonzero(where)} of {where.size} elements are {kinds[0]} instead of {kinds[1]}"


def has_similar_jumps(off: Array, distances: Array, jumps: list[tuple[Array, Array]]) -> bool:
    """Whether elements that are off are rare, and about as many and as far off as those that jump in the original.

    `jumps` has the jumps and distances under each perturbation. Which of a million roundings change is random; how many
    change is not.
    """
    count = int(np.count_nonzero(off))
    most = max((int(np.count_nonzero(where)) for where, _ in jumps), default=0)
    farthest = max((float(far[where].max()) for where, far in jumps if where.any()), default=0.0)
    return count <= min(4 * most, off.size // RARE_ONE_IN) and float(distances[off].max()) <= 2 * farthest


def max_excused(size: int) -> int:
    """The most elements of an output of `size` elements that may be excused."""
    return max(size // 2, 1)


def _most_jumps(jumps: Iterable[Array]) -> int:
    """The most elements that may jump by chance, given those that jump under each perturbation."""
    return 4 * max((int(np.count_nonzero(j)) for j in jumps), default=0)


def max_tolerance(dtype: np.dtype[Any]) -> float:
    """The largest tolerance of an output, for any noise, relative to its largest magnitude."""
    return MAX_TOLERANCE.get(dtype.name, MAX_TOLERANCE_8_BIT)


def min_tolerance(dtype: np.dtype[Any]) -> float:
    """The smallest tolerance of an output, relative to its largest magnitude."""
    real = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    epsilons = MIN_TOLERANCE_EPSILONS if real.itemsize > 2 else MIN_TOLERANCE_EPSILONS_16_BIT
    return min(epsilons * float(float_info(real).eps), max_tolerance(dtype))


def observed_noise_floor(x: Array, perturbed: Iterable[Array]) -> float:
    """The largest change of an element of `x` in `perturbed`, except jumps between finite and non-finite."""
    return max((float(distances(x, m).max()) for m in perturbed), default=0.0)


def _jump_mask(x: Array, y: Array, perturbed: list[Array], threshold: float) -> Array:
    """Elements at which the original changes by more than `threshold` and half the distance of `y`, or becomes `y`."""
    found = np.zeros(x.shape, np.bool_)
    off = distances(x, y)
    for m in perturbed:
        far = distances(x, m)
        found |= (far > threshold) & (off <= 2 * far) & np.isfinite(y)
        found |= ~(np.isfinite(x) & np.isfinite(y)) & _equal_or_both_nan(m, y)
    return found


def _equal_or_both_nan(x: Array, y: Array) -> Array:
    return (np.isnan(x) & np.isnan(y)) | (x == y)


def has_same_finiteness(x: Array, y: Array) -> Array:
    """A mask of elements that are both finite, both NaN, or the same infinity."""
    return (np.isfinite(x) & np.isfinite(y)) | _equal_or_both_nan(x, y)


def _scale(x: Array, least: float = MIN_SCALE) -> float:
    return max(largest_magnitude(x), least)


def largest_magnitude(x: Array) -> float:
    """The magnitude of the largest finite number."""
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max()) if finite.size else 0.0


def distances(x: Array, y: Array) -> Array:
    """|x - y|; 0 if either is not finite, the largest number if the difference overflows."""
    both = np.isfinite(x) & np.isfinite(y)
    with np.errstate(all="ignore"):
        return np.minimum(np.where(both, np.abs(np.where(both, x - y, 0)), 0), np.finfo(np.float64).max)


def max_relative_error(x: Array, y: Array) -> float:
    """The largest relative error of an element, except 0."""
    size = np.abs(x)
    counts = np.isfinite(size) & (size > 0)
    if not counts.any():
        return 0.0
    with np.errstate(all="ignore"):
        shares = distances(x, y)[counts] / size[counts]
    return float(min(shares.max(), np.finfo(np.float64).max))


def max_ulps(a: Array, b: Array) -> float:
    """The largest distance in representable numbers over the elements that are finite in both."""
    if a.dtype.kind == "c":
        return max(max_ulps(a.real, b.real), max_ulps(a.imag, b.imag))
    both = np.isfinite(a) & np.isfinite(b)
    x, y = (_representable_ordinals(np.ascontiguousarray(v[both])) for v in (a, b))
    steps = np.maximum(x, y).view(np.uint64) - np.minimum(x, y).view(np.uint64)
    return float(steps.max()) if steps.size else 0.0


def _representable_ordinals(a: Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The ordinal of each number among all numbers of its type; 0 for both zeros."""
    bits = np.abs(a).view(np.dtype(f"u{a.dtype.itemsize}")).astype(np.int64)
    return np.where(np.signbit(a), -bits, bits)


def to_64_bit(a: Array) -> Array:
    """The numbers as 64-bit floats."""
    return a.astype(np.complex128) if a.dtype.kind == "c" else a.astype(np.float64)


def identical(expected: Any, actual: Any, *, exact: bool) -> OutputDifference | None:
    """The result of `compare_outputs` for small tensors with equal bytes; None for all other results."""
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return None
    a, b = cast("Array", expected), cast("Array", actual)
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.hasobject or a.nbytes > MAX_COPIED_BYTES:
        return None
    if a.tobytes() != b.tobytes():
        return None
    if exact or not is_float(a.dtype):
        return NO_DIFFERENCE
    x = to_64_bit(a)
    finite = np.abs(x[np.isfinite(x)])
    return OutputDifference(magnitude=max(float(finite.max()), MIN_SCALE)) if finite.size else NO_DIFFERENCE


def compare_outputs(
    expected: Any, actual: Any, *, exact: bool, compare_values: bool = True, noise: Noise = NO_NOISE
) -> OutputDifference:
    """Compare two results: types, shapes, then values, bit for bit if `exact`. NaN equals NaN.

    Otherwise floats may differ as far as the original's `noise` allows, and single elements of any type where the
    original jumps too. Without `compare_values`, only types and ranks count, as random values may determine extents.
    """
    wanted, given = _parts(expected), _parts(actual)
    if wanted is not None or given is not None:
        if wanted is None or given is None or type(expected) is not type(actual):
            return OutputDifference(reason=f"{type(expected).__name__} became {type(actual).__name__}")
        if wanted.keys != given.keys and compare_values:
            return OutputDifference(reason=f"{len(wanted.keys)} entries became {len(given.keys)}, or other keys")
        found = [
            compare_outputs(a, b, exact=exact, compare_values=compare_values, noise=noise.of_part(_part_getter(i)))
            for i, (a, b) in enumerate(zip(wanted.values, given.values, strict=compare_values))
        ]
        failed = next((d for d in found if d.reason), None)
        return failed or max(found, key=lambda d: d.share_of_allowed, default=OutputDifference())
    a, b = np.asarray(expected), np.asarray(actual)
    if dtype_key(a) != dtype_key(b) or a.ndim != b.ndim or (compare_values and a.shape != b.shape):
        return OutputDifference(reason=f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}")
    if not compare_values or a.size == 0:
        return OutputDifference()
    if is_float(a.dtype):
        return compare_bits(a, b) if exact else compare_floats(a, b, noise)
    return _compare_discrete(a, b, NO_NOISE if exact else noise)


def without_gains(expected: Any, actual: Any) -> Array | None:
    """`actual` with the expected elements where only `actual` is finite; None if there are none, or for no tensor."""
    if _parts(expected) is not None or _parts(actual) is not None:
        return None
    a, b = np.asarray(expected), np.asarray(actual)
    if a.dtype != b.dtype or a.shape != b.shape or not is_float(a.dtype):
        return None
    gained = np.isfinite(b) & ~np.isfinite(a)
    return np.where(gained, a, b) if gained.any() else None


def relative_noise_floor(expected: Any, noise: Noise) -> float:
    """The noise floor of a result as a fraction of its largest magnitude; for several parts, the largest fraction.

    Elements that do not move, such as a mask's -1e9, do not count.
    """
    if (parts := _parts(expected)) is not None:
        floors = (relative_noise_floor(p, noise.of_part(_part_getter(i))) for i, p in enumerate(parts.values))
        return max(floors, default=0.0)
    a = np.asarray(expected)
    if not is_float(a.dtype) or a.size == 0:
        return 0.0
    x = to_64_bit(a)
    far = np.max([distances(x, to_64_bit(m)) for m in noise.perturbed_like(a)] or [np.zeros(x.shape)], axis=0)
    return float(far.max()) / _scale(x[far > 0], noise.min_scale)


def _compare_discrete(a: Array, b: Array, noise: Noise) -> OutputDifference:
    """Compare integers, bools or strings; differing ones are excused if they are few and the original jumps as far."""
    off = np.asarray(a != b)
    wrong = int(np.count_nonzero(off))
    if not wrong:
        return OutputDifference()
    # Numbers that are not generic lie on jumps on purpose; rounding rarely moves one onto a jump by accident.
    limit = max_excused(a.size) if noise.excuses_jumps else a.size // RARE_ONE_IN
    is_ordinal = a.dtype.kind in "biu"
    moves = noise.perturbed_like(a) if noise.excuses_jumps else []
    for deeper in (False, True):
        moves += [m for m, _ in noise.more_perturbed_like(a)] if deeper else []
        jumps = [np.asarray(m != a) for m in moves]
        reached = [_integer_distances(a, b) <= 2 * _integer_distances(a, m) if is_ordinal else m == b for m in moves]
        explained = np.logical_or.reduce([off & j & r for j, r in zip(jumps, reached, strict=True)] or [~off & off])
        if int(np.count_nonzero(explained)) == wrong <= min(limit, _most_jumps(jumps)):
            return OutputDifference(excused=wrong)
    if is_ordinal and has_similar_jumps(
        off, _integer_distances(a, b), [(j, _integer_distances(a, m)) for j, m in zip(jumps, moves, strict=True)]
    ):
        return OutputDifference(excused=wrong)
    return OutputDifference(float(wrong), 0.0, f"{wrong} of {a.size} elements differ")


def dtype_key(a: Array) -> object:
    """The element type; all of NumPy's string types are equal."""
    return "string" if a.dtype.kind in "OUS" else a.dtype


def _integer_distances(a: Array, b: Array) -> Array:
    """|a - b| of integers or bools."""
    return np.abs(a.astype(np.float64) - b.astype(np.float64))


class Parts(NamedTuple):
    """The parts of a result that is not a tensor, with their keys or numbers."""

    keys: list[Any]
    values: list[Any]


def parts_of(value: Any) -> Parts | None:
    """The entries of a sequence, a map or an empty optional; None for a tensor."""
    if value is None:
        return Parts([], [])
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        return Parts(list(entries), list(entries.values()))
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return Parts(list(range(len(items))), items)
    return None


def _parts(result: Any) -> Parts | None:
    """The parts of a result, which may also be a sparse tensor of `onnx.reference`; None for a tensor.

    A map to floats, or a sequence of such maps (ZipMap), has one part: Python floats there are float32 results.
    """
    if hasattr(result, "indices"):
        return Parts(["values", "indices", "shape"], [result.values, result.indices, result.shape])
    maps: list[Any] = cast("list[Any]", result) if isinstance(result, list) else [result]
    if maps and all(isinstance(m, dict) for m in maps):
        numbers = [v for m in maps for v in m.values()]
        if all(type(v) is float for v in numbers):
            return Parts([(i, key) for i, m in enumerate(maps) for key in m], [np.array(numbers, np.float32)])
    return parts_of(result)


def _part_getter(index: int) -> Callable[[Any], Any]:
    """A function that returns a part of a result, or None if there is no such part."""

    def get(result: Any) -> Any:
        parts = _parts(result)
        return parts.values[index] if parts is not None and index < len(parts.values) else None

    return get
