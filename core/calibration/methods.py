"""Ranges of values, computed from their statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np

from ..errors import ModelError
from ..ir.quantization_spec import Range
from .statistics import Array, Histogram, ValueStatistics

Method = Literal["minmax", "percentile", "entropy", "mse"]
METHODS: tuple[Method, ...] = get_args(Method)
PERCENTILE = 99.99  # per cent of the elements, inside the range
LEVELS = 256  # of a quantized type
ENTROPY_CANDIDATES = 128  # ranges that are compared by divergence
SMOOTHING = 1e-4  # of the average density, for an outermost bin that only contains outliers
MSE_CANDIDATES, MSE_ROUNDS = 32, 3  # candidates for each end in each round; each round refines the previous one


def value_range(
    statistics: ValueStatistics,
    method: Method = "minmax",
    *,
    percentile: float = PERCENTILE,
    levels: int = LEVELS,
    symmetric: bool = False,
) -> Range:
    """Compute the range of a value for quantization. It contains zero; numbers outside are clamped.

    - minmax: all numbers except masks.
    - percentile: `percentile` per cent of the elements; the same share is cut off at each end.
    - entropy: minimum Kullback-Leibler divergence between the distributions before and after quantization (S. Migacz,
    8-bit
      inference with TensorRT, GTC 2017); zeros are exact and ignored.
    - mse: minimum expected squared error of quantization; zeros are exact.

    `levels` is the number of levels of the quantized type; with `symmetric`, they are symmetric around zero. A value
    without histogram gets its minmax range. Raises ModelError for an unknown method or an invalid percentile.
    """
    if method not in METHODS:
        raise ModelError(f"calibration method {method!r} is unknown; choose {', '.join(METHODS)}")
    if not 0 < percentile <= 100:
        raise ModelError(f"percentile {percentile:g} is not between 0 and 100")
    whole = Range(min(statistics.low, 0.0), max(statistics.high, 0.0) + 0.0)
    whole = _symmetric(whole) if symmetric else whole
    if method == "minmax" or statistics.histogram is None or not statistics.histogram.counts.any():
        return whole
    density = _Density.of(statistics.histogram, folded=symmetric)
    if method == "percentile":
        found = _percentile_range(density, statistics.zeros, percentile, folded=symmetric)
    elif method == "entropy":
        found = _entropy_range(density, levels // 2 if symmetric else levels)
    else:
        found = _least_error_range(density, levels, folded=symmetric)
    # If an end is in the two outermost bins, extend it to all numbers, so that few distinct numbers stay exact.
    low = whole.low if found[0] < density.first + 2 else min(float(found[0]) * density.width, 0.0)
    high = whole.high if found[1] > density.end - 2 else max(float(found[1]) * density.width, 0.0)
    return _symmetric(Range(0.0, high)) if symmetric else Range(low, high)


def calibrated_ranges(
    collected: Mapping[str, ValueStatistics],
    method: Method = "minmax",
    *,
    percentile: float = PERCENTILE,
    levels: int = LEVELS,
    symmetric: bool = False,
) -> dict[str, Range]:
    """The ranges of values that can be quantized, by name; see `value_range`.

    Values without samples, and values with masks, which must not be clamped, have no range. Raises ModelError.
    """
    return {
        name: value_range(statistics, method, percentile=percentile, levels=levels, symmetric=symmetric)
        for name, statistics in collected.items()
        if statistics.samples and not statistics.has_masks
    }


def _symmetric(found: Range) -> Range:
    """The smallest range that contains another one and is symmetric around zero."""
    high = max(found.high, -found.low)
    return Range(0.0 - high, high)


class _Density(NamedTuple):
    """Counts in bins of width 1 from `first`; end bins are not empty. `width` is the width in units of the value."""

    counts: Array
    first: int
    width: float

    @classmethod
    def of(cls, histogram: Histogram, *, folded: bool) -> _Density:
        """The density of a histogram that has zero among its edges, or of the magnitudes if `folded`."""
        used = np.flatnonzero(histogram.counts)
        first, end = min(histogram.first + int(used[0]), 0), max(histogram.first + int(used[-1]) + 1, 0)
        counts = np.zeros(end - first, np.int64)
        counts[histogram.first + used - first] = histogram.counts[used]
        if not folded:
            return cls(counts, first, histogram.width)
        positive, negative = counts[-first:], counts[:-first][::-1] if first else counts[:0]
        magnitudes = np.zeros(max(end, -first), np.int64)
        magnitudes[:end] += positive
        magnitudes[:-first] += negative
        return cls(magnitudes, 0, histogram.width)

    @property
    def end(self) -> int:
        """The last edge."""
        return self.first + len(self.counts)

    def cumulative(self, numbers: Array) -> Array:
        """The cumulative sum of `numbers`, one per bin, at each edge."""
        return np.concatenate([np.zeros(1, numbers.dtype), np.cumsum(numbers)])


def _percentile_range(density: _Density, zeros: int, percentile: float, *, folded: bool) -> tuple[float, float]:
    """The ends beyond which the remaining elements lie, half of them at each end, or all at one end if `folded`."""
    counts, first = density.counts, density.first
    total = int(counts.sum()) + zeros
    beyond = np.array([total * (1 - percentile / 100) * (1 if folded else 0.5)])
    edges = np.arange(first, density.end + 1, dtype=np.float64)
    below, above = density.cumulative(counts)[: 1 - first], density.cumulative(counts[-first:][::-1])
    low, high = np.interp(beyond, below, edges[: 1 - first]), np.interp(beyond, above, edges[-first:][::-1])
    return float(low[0]), float(high[0])


def _entropy_range(density: _Density, levels: int) -> tuple[float, float]:
    """The window with the lowest divergence, among symmetric ones with at least one bin per level.

    Outliers count in the outermost bins. A level spreads its count over its nonempty bins.
    """
    counts, first, end = density.counts.astype(np.float64), density.first, density.end
    bound = max(end, -first)
    magnitudes = np.unique(np.linspace(min(levels // 2, bound), bound, ENTROPY_CANDIDATES).astype(np.int64))
    starts, ends = np.maximum(-magnitudes, first) - first, np.minimum(magnitudes, end) - first
    is_wide = ends - starts >= levels
    if not is_wide.any():
        return first, end
    starts, ends = starts[is_wide], ends[is_wide]
    up_to, nonempty = density.cumulative(counts), density.cumulative(density.counts > 0).astype(np.int64)
    entropy = density.cumulative(_x_log_x(counts))
    left, right, inside = up_to[starts], up_to[-1] - up_to[ends], up_to[ends] - up_to[starts]
    borders = starts[:, None] + (ends - starts)[:, None] * np.arange(levels + 1) // levels
    masses, bins = np.diff(up_to[borders]), np.diff(nonempty[borders])
    heights = masses / np.maximum(bins, 1)  # of the nonempty bins, in the quantized distribution
    floor = SMOOTHING * inside / (ends - starts)
    own = entropy[ends] - entropy[starts]
    other = (masses * _log(heights)).sum(1)
    for outliers, bin_count, height in (
        (left, counts[starts], heights[:, 0]),
        (right, counts[ends - 1], heights[:, -1]),
    ):
        own += _x_log_x(bin_count + outliers) - _x_log_x(bin_count)
        other += outliers * _log(np.maximum(np.where(bin_count > 0, height, 0), floor))
    divergence = (own - other) / up_to[-1] + _log(inside / up_to[-1])
    best = int(np.argmin(np.where(inside > 0, divergence, np.inf)))
    return first + int(starts[best]), first + int(ends[best])


def _log(numbers: Array) -> Array:
    """The logarithm; 0 of zero."""
    return np.log(np.where(numbers > 0, numbers, 1))


def _x_log_x(numbers: Array) -> Array:
    return numbers * _log(numbers)


def _least_error_range(density: _Density, levels: int, *, folded: bool) -> tuple[float, float]:
    """The ends with the smallest sum of squared errors.

    The error is x**2 for numbers that become zero, step**2 / 12 on average for other numbers inside, and the square of
    the distance to the end for numbers outside. Both ends are searched on a grid, which is refined around the best.
    """
    edges = np.arange(density.first, density.end + 1, dtype=np.float64)
    middles, counts = edges[:-1] + 0.5, density.counts.astype(np.float64)
    moments = [density.cumulative(m) for m in (counts, counts * middles, counts * (middles**2 + 1 / 12))]

    def below(ends: Array) -> tuple[Array, ...]:
        """Count, sum and sum of squares of the numbers below some ends; numbers are uniform within each bin."""
        return tuple(np.interp(ends, edges, m) for m in moments)

    n, total, squares = (m[-1] for m in moments)
    step_count = (levels - 1) / 2 if folded else levels - 1
    reach = np.array([edges[0], edges[-1]])
    lowest, highest = np.zeros(2), np.ones(2)  # of the grid, as a share of the reach
    best = reach
    for _ in range(MSE_ROUNDS):
        shares = np.linspace(lowest, highest, MSE_CANDIDATES)
        lows, highs = (shares * reach).T
        n_low, sum_low, squares_low = below(lows)
        n_high, sum_high, squares_high = below(highs)
        under = squares_low - 2 * lows * sum_low + lows**2 * n_low
        n_over, sum_over, squares_over = n - n_high, total - sum_high, squares - squares_high
        over = squares_over - 2 * highs * sum_over + highs**2 * n_over
        steps = (highs[None, :] - lows[:, None]) / step_count
        n_down, _, squares_down = below(np.maximum(-steps / 2, lows[:, None]))
        n_up, _, squares_up = below(np.minimum(steps / 2, highs[None, :]))
        rounded = n_high[None, :] - n_low[:, None] - (n_up - n_down)
        errors = under[:, None] + over[None, :] + squares_up - squares_down + rounded * steps**2 / 12
        place = np.array(np.unravel_index(np.argmin(errors), errors.shape))
        best = (shares * reach)[place, np.arange(2)]
        lowest, highest = (shares[np.clip(place + d, 0, MSE_CANDIDATES - 1), np.arange(2)] for d in (-1, 1))
    return float(best[0]), float(best[1])
