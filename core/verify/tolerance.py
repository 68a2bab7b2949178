"""Two arrays of floats: bit for bit, or as close as rounding explains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .noise import MULTIPLE, Noise, limits
from .verdict import Difference

Array = np.ndarray[Any, Any]

# How far a float output may be off at most, as a share of its largest magnitude, by type. Below `FLOOR` the
# magnitude counts as `FLOOR`.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2, "complex64": 1e-4, "complex128": 1e-9}
COARSE = 0.25  # 8-bit and smaller floats
FLOOR = 1e-4
BASE = 16  # epsilons, as a share of the largest magnitude: what moving the inputs does not show
RARE = 100  # one element in so many may be excused for another one that jumps
HALF_BASE = 4  # the same for 16-bit floats


def same_bits(a: Array, b: Array) -> Difference:
    """NaNs count as equal whatever their payload; zeros must agree in sign."""
    x, y = wide(a), wide(b)
    signs = (np.signbit(x.real) == np.signbit(y.real)) & (np.signbit(x.imag) == np.signbit(y.imag))
    same = (np.isnan(x) & np.isnan(y)) | ((x == y) & signs)
    if same.all():
        return Difference()
    error = float(_distances(x, y).max())
    wrong = int(np.count_nonzero(~same))
    how = f"their bits, by up to {error:.3g}" if error else "what is not finite"
    if _agree(x, y).all():
        how = "the sign of zero"
    reason = f"{wrong} of {a.size} elements differ in {how}"
    return Difference(error, 0.0, reason, relative(x, y), ulps(a, b))


def close(a: Array, b: Array, noise: Noise) -> Difference:
    """Finite, infinite and NaN in the same places, and no further off than the original's noise allows.

    An element further off is excused where the original jumps at that element too, but never most of an output.
    """
    x, y = wide(a), wide(b)
    finite = np.isfinite(x)
    if not finite.any() and _agree(x, y).all():
        return Difference()
    scale, cap, base = _scale(x), cap_of(a.dtype), base_of(a.dtype)
    distances, alike = _distances(x, y), _agree(x, y) | (finite & np.isfinite(y))
    error = float(distances.max())
    if alike.all() and error <= base * scale and not (error and noise.cheap):
        return Difference(error, base * scale, "", relative(x, y), ulps(a, b), magnitude=scale)
    floor = noise.usual() * scale
    allowed = min(cap * scale, max(MULTIPLE * floor, base * scale))
    if alike.all() and error <= allowed:
        return Difference(error, allowed, "", relative(x, y), ulps(a, b), floor, magnitude=scale)
    pair = _Pair(x, y, distances, alike, scale, cap, base)
    moves = [wide(m) for m in noise.like(a)]
    found = pair.held(moves, floor, moves if noise.excuses else [], cap * scale)
    if found.reason:
        deeper = [(wide(m), far) for m, far in noise.more_like(a)]
        near = [m for m, far in deeper if far == 1]
        jumps = [*(moves if noise.excuses else []), *(m for m, _ in deeper)]
        found = pair.held([*moves, *near], floor, jumps, None) if deeper else found
    return replace(found, relative=relative(x, y), ulps=ulps(a, b), magnitude=scale)


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is wanted and what is there, where they are alike, and how far apart."""

    x: Array
    y: Array
    distances: Array
    alike: Array
    scale: float
    cap: float
    base: float

    def held(self, moves: list[Array], floor: float, jumps: list[Array], beyond: float | None) -> Difference:
        """The difference in the light of `moves`; elements may differ where one of `jumps` goes `beyond`.

        `beyond` None: further than is allowed for all. Where the original could not be moved, its noise is unknown,
        and the cap is what counts.
        """
        floor = max(own_floor(self.x, moves), floor)
        is_known = bool(moves) or floor > 0
        most = self.cap * self.scale
        allowed = min(most, max(MULTIPLE * floor, self.base * self.scale)) if is_known else most
        off = ~self.alike | (self.distances > allowed)
        excused = off & _jumps(self.x, self.y, jumps, allowed if beyond is None else beyond)
        if beyond is None and self.alike.all() and (off & ~excused).any():
            ways = [_distances(self.x, m) for m in jumps]
            if as_many(off, self.distances, [(far > allowed, far) for far in ways]):
                excused = off
        count = int(np.count_nonzero(excused))
        error = float(self.distances.max())
        if count and count <= most_excused(self.x.size):
            off &= ~excused
            error = float(np.where(excused, 0.0, self.distances).max())
        else:
            count = 0
        reason = _reason(off, self.alike, error, allowed)
        return Difference(error, allowed, reason, floor=floor if is_known else None, excused=count)


def _reason(off: Array, alike: Array, error: float, allowed: float) -> str:
    if not off.any():
        return ""
    wild = int(np.count_nonzero(off & ~alike))
    if wild:
        return f"{wild} of {off.size} elements are not finite in the same way"
    return f"off by up to {error:.3g} (allowed {allowed:.3g})"


def as_many(off: Array, distances: Array, jumps: list[tuple[Array, Array]]) -> bool:
    """Whether the elements that are off are rare, about as many as jump in the original, and about as far.

    `jumps` has where it jumps in each of its moves, and how far. Which of a million roundings fall the other way is
    chance; how many do is not.
    """
    count = int(np.count_nonzero(off))
    most = max((int(np.count_nonzero(where)) for where, _ in jumps), default=0)
    farthest = max((float(far[where].max()) for where, far in jumps if where.any()), default=0.0)
    return count <= min(4 * most, off.size // RARE) and float(distances[off].max()) <= 2 * farthest


def most_excused(size: int) -> int:
    """How many elements of an output of `size` may be excused: where more jump, nothing is known of it."""
    return max(size // 2, 1)


def cap_of(dtype: np.dtype[Any]) -> float:
    """The most that an output may be off, whatever its noise, as a share of its largest magnitude."""
    return TOLERANCE.get(dtype.name, COARSE)


def base_of(dtype: np.dtype[Any]) -> float:
    """What an output may always be off, as a share of its largest magnitude."""
    real = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    epsilon = float(limits(real).eps)
    return min((BASE if real.itemsize > 2 else HALF_BASE) * epsilon, cap_of(dtype))


def own_floor(x: Array, moves: list[Array]) -> float:
    """The largest movement of an element, in `moves` of `x`; jumps between finite and not are none."""
    return max((float(_distances(x, m).max()) for m in moves), default=0.0)


def floor_share(want: Array, noise: Noise) -> float:
    """The noise floor of an output as a share of its largest magnitude."""
    x = wide(want)
    return own_floor(x, [wide(m) for m in noise.like(want)]) / _scale(x) if x.size else 0.0


def _jumps(x: Array, y: Array, moves: list[Array], cap: float) -> Array:
    """Where the original itself moves by more than `cap` and half as far as `y` is off, or becomes as `y` is."""
    found = np.zeros(x.shape, np.bool_)
    off = _distances(x, y)
    for m in moves:
        far = _distances(x, m)
        found |= (far > cap) & (off <= 2 * far) & np.isfinite(y)
        found |= ~(np.isfinite(x) & np.isfinite(y)) & _agree(m, y)
    return found


def _agree(x: Array, y: Array) -> Array:
    return (np.isnan(x) & np.isnan(y)) | (x == y)


def _scale(x: Array) -> float:
    finite = np.abs(x[np.isfinite(x)])
    return max(float(finite.max()) if finite.size else 0.0, FLOOR)


def _distances(x: Array, y: Array) -> Array:
    """|x - y|, 0 where either is not finite; what overflows is the greatest number."""
    both = np.isfinite(x) & np.isfinite(y)
    with np.errstate(all="ignore"):
        return np.minimum(np.where(both, np.abs(np.where(both, x - y, 0)), 0), np.finfo(np.float64).max)


def relative(x: Array, y: Array) -> float:
    """The largest relative error of an element that is not 0."""
    size = np.abs(x)
    counts = np.isfinite(size) & (size > 0)
    if not counts.any():
        return 0.0
    with np.errstate(all="ignore"):
        shares = _distances(x, y)[counts] / size[counts]
    return float(min(shares.max(), np.finfo(np.float64).max))


def ulps(a: Array, b: Array) -> float:
    """The largest distance in representable numbers, over the elements that are finite in both."""
    if a.dtype.kind == "c":
        return max(ulps(a.real, b.real), ulps(a.imag, b.imag))
    both = np.isfinite(a) & np.isfinite(b)
    x, y = (_places(np.ascontiguousarray(v[both])) for v in (a, b))
    steps = np.maximum(x, y).view(np.uint64) - np.minimum(x, y).view(np.uint64)
    return float(steps.max()) if steps.size else 0.0


def _places(a: Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The place of each number among all numbers of its type, 0 for both zeros."""
    bits = np.abs(a).view(np.dtype(f"u{a.dtype.itemsize}")).astype(np.int64)
    return np.where(np.signbit(a), -bits, bits)


def wide(a: Array) -> Array:
    """The numbers in 64-bit floats."""
    return a.astype(np.complex128) if a.dtype.kind == "c" else a.astype(np.float64)
