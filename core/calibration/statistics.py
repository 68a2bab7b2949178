"""Streaming statistics of values, with memory independent of the number of samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import floor, frexp, inf, isnan, ldexp, prod
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from ..errors import ModelError
from ..operators.window import windows_of

Array = np.ndarray[Any, Any]

BINS = 4096
"""Bins of a histogram; at least half of them lie between its lowest and highest number."""
LOWEST_EXPONENT = -126  # of the width of bins; its reciprocal must be a float32
CHUNK_ELEMENTS = 1 << 18  # elements that are counted together; few enough to stay in a cache
FAR = (2.0**12, 2.0**29, 2.0**80)
"""Magnitudes from which numbers are counted separately, because they may be masks: -10000 and -65504, -1e9, -3.4e38."""
POSITIVE_MASK_ORDER = 2  # index in FAR from which positive numbers may also be masks
MAX_WINDOWS = 1 << 13  # windows of a Conv that are used for a Gram matrix
WAITING_PART = 64  # of the bytes of a Gram matrix: the elements of waiting rows at which their products are added to it
MASK_DISTANCE = 64.0  # of a mask from zero, as a multiple of the magnitude of all other numbers


@dataclass(slots=True)
class Histogram:
    """Counts of numbers in `BINS` bins of equal width, a power of two; zero is an edge of a bin.

    Bin i holds the numbers from (`first` + i) * `width`, inclusive, to the next edge. If a new number is outside, the
    bins are widened by merging 2, 4, ... of them, so that no count is lost or moved across an edge.
    """

    counts: Array = field(default_factory=lambda: np.zeros(BINS, np.int64))
    exponent: int = LOWEST_EXPONENT
    first: int = 0

    @property
    def width(self) -> float:
        """The width of a bin."""
        return ldexp(1.0, self.exponent)

    @property
    def edges(self) -> Array:
        """The edges of the bins in ascending order, one more than there are bins."""
        return np.arange(self.first, self.first + BINS + 1) * self.width

    def add(self, numbers: Array, low: float, high: float) -> None:
        """Count finite floats between `low` and `high`."""
        self.cover(low, high)
        positions = np.floor(numbers * numbers.dtype.type(ldexp(1.0, -self.exponent)))
        positions -= self.first
        self.counts += np.bincount(positions.astype(np.intp), minlength=BINS)

    def add_histogram(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        found = np.flatnonzero(other.counts)
        if not len(found):
            return
        ends = other.edges[[found[0], found[-1] + 1]]
        self.cover(ends[0], ends[1] - other.width / 2, other.exponent)
        places = ((other.first + found) >> min(self.exponent - other.exponent, 62)) - self.first
        np.add.at(self.counts, places, other.counts[found])

    def cover(self, low: float, high: float, exponent: int = LOWEST_EXPONENT) -> None:
        """Widen the bins, at least to the width of `exponent`, and move them, to cover `low`, `high` and zero."""
        used = np.flatnonzero(self.counts)
        if len(used):
            low, high = min(low, (self.first + used[0]) * self.width), max(high, (self.first + used[-1]) * self.width)
        low, high = min(low, 0.0), max(high, 0.0)
        ends = self.first * self.width, (self.first + BINS) * self.width
        if ends[0] <= low and high < ends[1] and exponent <= self.exponent:
            return
        wider = max(self.exponent, exponent, frexp(high / BINS - low / BINS)[1] - 1)
        while floor(ldexp(high, -wider)) - floor(ldexp(low, -wider)) >= BINS:
            wider += 1
        first = floor(ldexp(low, -wider))
        counts = np.zeros(BINS, np.int64)
        np.add.at(counts, ((self.first + used) >> min(wider - self.exponent, 62)) - first, self.counts[used])
        self.counts, self.exponent, self.first = counts, wider, first


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Statistics along an axis: the largest magnitude of each channel's finite elements."""

    axis: int
    maxima: Array = field(repr=False)


class Rows(Struct, frozen=True):
    """The rows of a value that an op multiplies with weights, with `columns` elements in each of `groups`.

    They are along the last axis or, with a `kernel`, the windows of a Conv with these attributes.
    """

    columns: int
    groups: int = 1
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    auto_pad: str = "NOTSET"

    @property
    def gram_bytes(self) -> int:
        """The bytes of the Gram matrices."""
        return 8 * self.groups * self.columns**2

    def of(self, array: Array, most: int) -> Iterator[Array]:
        """Yield the rows of an array in parts of shape (rows, groups, columns); at most `most` windows, evenly spread.

        Yields nothing for an array that does not have such rows.
        """
        if not self.kernel:
            rows = array.reshape(-1, 1, array.shape[-1] if array.ndim else 1)
            step = max(1, CHUNK_ELEMENTS // rows.shape[2])
            yield from (rows[i : i + step] for i in range(0, len(rows), step) if rows.shape[2] == self.columns)
        elif array.ndim == len(self.kernel) + 2 and array.shape[1] * prod(self.kernel) == self.groups * self.columns:
            yield self._windows(array, most)

    def _windows(self, array: Array, most: int) -> Array:
        windows = windows_of(
            array.shape[2:], self.kernel, strides=self.strides, dilations=self.dilations, pads=self.pads,
            auto_pad=self.auto_pad,
        )  # fmt: skip
        padded = np.moveaxis(windows.padded(array, 0), 1, -1)
        count = len(array) * prod(windows.counts)
        chosen = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.intp))
        sample, *starts = np.unravel_index(chosen, (len(array), *windows.counts))
        taps = np.indices(self.kernel).reshape(len(self.kernel), 1, -1)
        places = (s[:, None] * by + t * d for s, by, t, d in
                  zip(starts, windows.strides, taps, windows.dilations, strict=True))  # fmt: skip
        found = padded[(sample[:, None], *places)]  # (windows, taps, channels)
        return np.moveaxis(found, 1, 2).reshape(len(chosen), self.groups, self.columns)


class Gram(NamedTuple):
    """Sums X^T X of rows X, (groups, columns, columns) in float64, the number of these rows, and their `totals`."""

    sums: Array
    rows: int
    totals: Array


@dataclass(frozen=True, slots=True)
class ValueStatistics:
    """Statistics of a value over all samples.

    `low` and `high` are the smallest and largest numbers, or both 0 if there are none. They and the `histogram` exclude
    `infinities`, `nans`, and `masks`: finite numbers so far from all others that they only mark elements to be ignored.
    `lowest` and `highest` include the masks. `zeros` of the `count` elements are zero, and in no bin. The value was
    computed in the `samples`. `grams` are of rows without infinities.
    """

    name: str
    low: float = 0.0
    high: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    count: int = 0
    zeros: int = 0
    masks: int = 0
    infinities: int = 0
    nans: int = 0
    samples: int = 0
    histogram: Histogram | None = field(default=None, repr=False)
    channels: ChannelStatistics | None = field(default=None, repr=False)
    grams: Mapping[Rows, Gram] = field(default_factory=dict[Rows, Gram], repr=False)

    @property
    def has_masks(self) -> bool:
        """Whether some elements are masks, infinite or NaN, whose meaning would be lost by clamping to the range."""
        return bool(self.masks or self.infinities or self.nans)

    @property
    def magnitude(self) -> float:
        """The largest magnitude of the numbers, without masks."""
        return max(abs(self.low), abs(self.high))


@dataclass(slots=True)
class _Cluster:
    """Numbers of one order of magnitude, and of one sign if they are far from zero."""

    low: float = inf
    high: float = -inf
    count: int = 0
    histogram: Histogram | None = None

    def add(self, numbers: Array, low: float, high: float, *, counted: bool) -> None:
        self.low, self.high, self.count = min(self.low, low), max(self.high, high), self.count + numbers.size
        if counted:
            self.histogram = self.histogram or Histogram()
            self.histogram.add(numbers, low, high)

    def include(self, other: _Cluster) -> None:
        self.low, self.high, self.count = min(self.low, other.low), max(self.high, other.high), self.count + other.count
        if other.histogram is not None:
            self.histogram = self.histogram or Histogram()
            self.histogram.add_histogram(other.histogram)


@dataclass(slots=True)
class StatisticsCollector:
    """Collects the statistics of one value, sample by sample.

    Masks are separated from other numbers at the end. Numbers with magnitudes of at least 4096 are counted by sign and
    order of magnitude (`FAR`). Such a cluster contains masks if it is negative or beyond 5e8, and all of it is at least
    64 times as far from zero as every other number: -10000 is a mask next to 100, but a number next to 200. NaN is
    rejected unless the value `allows_nan`. Channels are not collected if their number varies, as for values with one
    name in two branches. Gram matrices are collected of `rows`; of windows, at most `most_windows` per array.
    """

    name: str
    has_histogram: bool = True
    channel_axis: int | None = None
    allows_nan: bool = False
    rows: tuple[Rows, ...] = ()
    most_windows: int = MAX_WINDOWS
    count: int = 0
    zeros: int = 0
    infinities: int = 0
    nans: int = 0
    samples: int = 0
    _sample: int = -1  # the latest one
    _near: _Cluster = field(default_factory=_Cluster)
    _far: dict[tuple[int, bool], _Cluster] = field(default_factory=dict[tuple[int, bool], _Cluster])
    _channels: Array | None = None
    _grams: dict[Rows, Gram] = field(default_factory=dict[Rows, Gram])
    _waiting: dict[Rows, list[Array]] = field(default_factory=dict[Rows, list[Array]])  # rows for the Gram matrices

    def add(self, array: Array, sample: int) -> None:
        """Add the elements of a float array of any shape. Raises ModelError for NaN, and for axes that do not fit.

        Successive arrays may belong to one sample.
        """
        self.samples += sample != self._sample
        self._sample = sample
        self._add_elements(array, sample)
        self.count += array.size
        if self.channel_axis is not None:
            self._add_channels(array, self.channel_axis)
        for rows in self.rows:
            for part in rows.of(array, self.most_windows):
                wide = part.astype(np.float32 if rows.kernel else np.float64)  # there are many windows
                waiting = self._waiting.setdefault(rows, [])
                waiting.append(wide[np.isfinite(wide).all(axis=(1, 2))])
                if sum(a.size for a in waiting) >= max(CHUNK_ELEMENTS, rows.gram_bytes // WAITING_PART):
                    self._multiply(rows)

    def _add_elements(self, array: Array, sample: int) -> None:
        flat = array.reshape(-1)
        for start in range(0, flat.size, CHUNK_ELEMENTS):
            chunk = flat[start : start + CHUNK_ELEMENTS]
            chunk = chunk if chunk.dtype in {np.dtype(np.float32), np.dtype(np.float64)} else chunk.astype(np.float32)
            low, high = float(chunk.min()), float(chunk.max())
            if isnan(low):
                chunk = self._without_nans(chunk, sample)
                if not chunk.size:
                    continue
                low, high = float(chunk.min()), float(chunk.max())
            if -FAR[0] < low and high < FAR[0]:
                self._add_cluster(self._near, chunk, low, high)
            else:
                self._add_far(chunk)

    def _without_nans(self, numbers: Array, sample: int) -> Array:
        if not self.allows_nan:
            raise ModelError(f"{self.name} is NaN in sample {sample}; remove the sample or repair the model")
        found = numbers[~np.isnan(numbers)]
        self.nans += numbers.size - found.size
        return found

    def _add_cluster(self, cluster: _Cluster, numbers: Array, low: float, high: float) -> None:
        """Add numbers to a cluster, without its zeros in the histogram."""
        cluster.add(numbers, low, high, counted=self.has_histogram)
        if low <= 0 <= high:
            zeros = numbers.size - int(np.count_nonzero(numbers))
            self.zeros += zeros
            if cluster.histogram is not None:
                cluster.histogram.counts[-cluster.histogram.first] -= zeros

    def _add_far(self, numbers: Array) -> None:
        finite = numbers[np.isfinite(numbers)]
        self.infinities += numbers.size - finite.size
        orders = np.digitize(np.abs(finite), FAR)
        for order in np.flatnonzero(np.bincount(orders, minlength=1)).tolist():
            among = finite[orders == order]
            for is_negative in (False, True) if order else (False,):
                chosen = among[(among < 0) == is_negative] if order else among
                if chosen.size:
                    cluster = self._far.setdefault((order, is_negative), _Cluster()) if order else self._near
                    self._add_cluster(cluster, chosen, float(chosen.min()), float(chosen.max()))

    def _add_channels(self, array: Array, axis: int) -> None:
        if not -array.ndim <= axis < array.ndim:
            raise ModelError(f"{self.name} of shape {array.shape} has no axis {axis}")
        others = tuple(i for i in range(array.ndim) if i != axis % array.ndim)
        wide = array if array.dtype == np.float64 else array.astype(np.float32, copy=False)
        found = np.abs(wide).max(others, initial=0.0, where=np.isfinite(wide)).astype(np.float64)
        if self._channels is not None and len(self._channels) != len(found):
            self.channel_axis = self._channels = None
        else:
            self._channels = found if self._channels is None else np.maximum(self._channels, found)

    def _multiply(self, rows: Rows) -> None:
        """Add the products of all waiting rows at once, because an addition takes as long as many products."""
        waiting = self._waiting.pop(rows)
        found = (np.concatenate(waiting) if len(waiting) > 1 else waiting[0]).swapaxes(0, 1)
        shape = (rows.groups, rows.columns)
        known = self._grams.get(rows) or Gram(np.zeros((*shape, rows.columns)), 0, np.zeros(shape))
        np.add(known.sums, found.swapaxes(1, 2) @ found, out=known.sums)
        self._grams[rows] = Gram(known.sums, known.rows + found.shape[1], known.totals + found.sum(1, np.float64))

    def statistics(self) -> ValueStatistics:
        """The statistics of all samples so far."""
        for rows in [*self._waiting]:
            self._multiply(rows)
        kept, masks, lowest, highest = _Cluster(), 0, inf, -inf
        kept.include(self._near)
        for (order, is_negative), cluster in sorted(self._far.items()):
            lowest, highest = min(lowest, cluster.low), max(highest, cluster.high)
            may_mask = kept.count and (is_negative or order >= POSITIVE_MASK_ORDER)
            if may_mask and min(abs(cluster.low), abs(cluster.high)) >= MASK_DISTANCE * max(-kept.low, kept.high):
                masks += cluster.count
            else:
                kept.include(cluster)
        lowest, highest = min(lowest, kept.low), max(highest, kept.high)
        ends = (kept.low, kept.high) if kept.count else (0.0, 0.0)
        extremes = (lowest, highest) if kept.count or masks else (0.0, 0.0)
        channels = None
        if self._channels is not None and self.channel_axis is not None:
            channels = ChannelStatistics(self.channel_axis, self._channels)
        histogram = (kept.histogram or Histogram()) if self.has_histogram else None
        counted = (self.count, self.zeros, masks, self.infinities, self.nans, self.samples)
        return ValueStatistics(self.name, *ends, *extremes, *counted, histogram, channels, self._grams)
