"""Statistics of values on samples, and ranges from them."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core.calibration.methods import METHODS, Method, calibrated_ranges, value_range
from passwright.core.calibration.statistics import BINS, Rows, StatisticsCollector, ValueStatistics
from passwright.core.errors import ModelError
from passwright.core.ir.quantization_spec import Range
from rewriting import cases, each

Array = np.ndarray[Any, Any]
LOWEST = float(np.finfo(np.float32).min)
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=40_000).astype(np.float32)


def statistics_of(*arrays: Any, **options: Any) -> ValueStatistics:
    """The statistics of a value on samples."""
    collector = StatisticsCollector("v", **options)
    for sample, array in enumerate(arrays):
        collector.add(np.asarray(array, getattr(array, "dtype", np.float32)), sample)
    return collector.statistics()


def quantized(x: Array, found: Range, levels: int, *, symmetric: bool) -> Array:
    """`x` as QuantizeLinear and DequantizeLinear give it back (ONNX operators, opset 13)."""
    bottom, top = (-(levels // 2 - 1), levels // 2 - 1) if symmetric else (0, levels - 1)
    scale = (found.high - found.low) / (top - bottom) or 1.0
    zero = 0 if symmetric else round(-found.low / scale)
    return (np.clip(np.rint(x / scale) + zero, bottom, top) - zero) * scale


@given(
    st.lists(
        st.tuples(
            st.integers(0, 50), st.sampled_from([1e-30, 1e-3, 1.0, 50.0, 3e6]), st.sampled_from([-1.0, 0.0, 1.0])
        ),
        max_size=6,
    ),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.integers(0, 99),
)
def test_histogram_counts_each_number_in_its_bin(parts: list[Any], dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [((rng.normal(size=n) + shift) * scale).clip(-6e4, 6e4).astype(dtype) for n, scale, shift in parts]
    samples = [np.where(rng.random(s.shape) < 0.1, dtype(0), s) for s in samples]
    found = statistics_of(*samples)
    everything = np.concatenate([np.zeros(0, dtype), *samples]).astype(np.float64)
    assert (found.count, found.zeros, found.samples) == (everything.size, (everything == 0).sum(), len(samples))
    assert (found.lowest, found.highest) == ((everything.min(), everything.max()) if everything.size else (0, 0))
    counted = everything[(everything >= found.low) & (everything <= found.high) & (everything != 0)]
    assert found.histogram is not None
    assert counted.size + found.zeros + found.masks == found.count
    assert np.array_equal(np.histogram(counted, found.histogram.edges)[0], found.histogram.counts)


def test_at_least_half_of_the_bins_are_used() -> None:
    for scale in 2.0 ** np.linspace(-20, 11, 40):
        found = statistics_of(np.abs(NORMAL), NORMAL * scale)
        assert found.histogram is not None
        used = np.flatnonzero(found.histogram.counts)
        assert used[-1] - used[0] >= BINS / 2 - 1


@each(
    ("numbers", "ends", "masks", "infinities"),
    {
        "lowest number": ([3, -2, LOWEST], (-2, 3), 1, 0),
        "-1e9": ([3, -2, -1e9, -1e9], (-2, 3), 2, 0),
        "mask added to scores": ([3, -2, -65504, -65501, -65506], (-2, 3), 3, 0),
        "-10000 next to 100": ([100, -10_000], (0, 100), 1, 0),
        "-10000 next to 200": ([200, -10_000], (-10_000, 200), 0, 0),
        "numbers between": ([5, 4_000, -10_000], (-10_000, 4_000), 0, 0),
        "several masks": ([5, -1e4, -1e9, LOWEST], (0, 5), 3, 0),
        "a mask beyond large numbers": ([5, -1e4, 9e4, -1e9], (-1e4, 9e4), 1, 0),
        "a mask of zeros": ([0, LOWEST], (0, 0), 1, 0),
        "nothing but the mask": ([LOWEST, LOWEST], (LOWEST, 0), 0, 0),
        "a large positive number": ([0.5, 1e6], (0, 1e6), 0, 0),
        "a positive mask": ([0.5, 1e9], (0, 0.5), 1, 0),
        "zeros and large numbers": ([0, 2e6], (0, 2e6), 0, 0),
        "infinities": ([3, -inf, inf, -2], (-2, 3), 0, 2),
        "infinity and mask": ([3, -inf, -1e9, -2], (-2, 3), 1, 1),
        "infinity alone": ([inf], (0, 0), 0, 1),
    },
)
def test_masks_do_not_count(numbers: list[float], ends: tuple[float, float], masks: int, infinities: int) -> None:
    for samples in ([numbers], [[x] for x in numbers], [[x] for x in reversed(numbers)]):
        found = statistics_of(*samples)
        assert list(value_range(found)) == np.array(ends, np.float32).tolist()
        assert (found.masks, found.infinities) == (masks, infinities)
        assert found.has_masks == bool(masks or infinities)


def test_values_with_masks_have_no_range() -> None:
    parts = {"plain": [1, -2], "mask": [0, LOWEST], "infinite": [1, -inf], "never": None}
    collected = {name: statistics_of(*([numbers] if numbers else [])) for name, numbers in parts.items()}
    assert calibrated_ranges(collected) == {"plain": (-2, 1)}
    assert calibrated_ranges(collected, symmetric=True) == {"plain": (-2, 2)}


def test_nan_is_refused_with_name_and_sample() -> None:
    with pytest.raises(ModelError, match=r"^v is NaN in sample 1; "):
        statistics_of([1.0], [2.0, nan, inf])


def test_gram_matrix() -> None:
    x, y = RNG.normal(size=(3, 70_000, 4)), RNG.normal(size=(5, 4)).astype(np.float16)
    y[2, 1] = inf
    wanted = Rows(4)
    found = statistics_of(x.astype(np.float32), y[:, :3], y, rows=(wanted,)).grams[wanted]  # the second has others
    rows = np.concatenate([x.reshape(-1, 4), y[[0, 1, 3, 4]].astype(np.float64)])
    assert found.sums == pytest.approx(rows.T @ rows[None], rel=1e-5, abs=1e-2)
    assert found.rows == len(rows)
    assert found.totals == pytest.approx(rows.sum(axis=0)[None], rel=1e-5, abs=1e-2)
    assert not statistics_of(x).grams
    assert not statistics_of(x, rows=(Rows(3),)).grams


def test_channels() -> None:
    x = RNG.normal(size=(4, 3, 5)).astype(np.float32)
    y = RNG.normal(size=(2, 3, 9)).astype(np.float32)
    y[0, 1, 2] = -inf
    for axis in (1, -2):
        found = statistics_of(x, y, channel_axis=axis).channels
        rows = np.concatenate([x.swapaxes(0, 1).reshape(3, -1), y.swapaxes(0, 1).reshape(3, -1)], 1)
        finite = np.ma.masked_invalid(rows.astype(np.float64))
        assert found is not None
        assert np.array_equal(found.maxima, np.abs(finite).max(1))
    with pytest.raises(ModelError, match=r"v of shape \(4, 3, 5\) has no axis 3"):
        statistics_of(x, channel_axis=3)
    assert statistics_of(y, x, y, channel_axis=0).channels is None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    "numbers",
    [[], [0], [2], [-2], [0, 1], [-1, 0, 1], [1e-30], [LOWEST], [7.25] * 9],
    ids=lambda numbers: str(numbers[:3]),
)
def test_few_numbers_stay_exact(method: Method, symmetric: bool, numbers: list[float]) -> None:
    found = value_range(statistics_of(numbers), method, symmetric=symmetric)
    low, high = (np.float32(x).item() for x in (min([*numbers, 0]), max([*numbers, 0])))
    assert found == ((-max(-low, high), max(-low, high)) if symmetric else (low, high))
    assert str(found.low + found.high) != "-0.0"


@pytest.mark.parametrize("symmetric", [False, True])
@cases(
    "numbers",
    {
        "normal": NORMAL,
        "relu": np.maximum(NORMAL, 0),
        "negative": -np.maximum(NORMAL, 0),
        "silu": 3 * NORMAL / (1 + np.exp(-3 * NORMAL)),
        "laplace": RNG.laplace(size=40_000).astype(np.float32),
        "uniform": RNG.uniform(-1, 3, 40_000).astype(np.float32),
        "one outlier": np.append(NORMAL, np.float32(300)),
    },
)
def test_mse_is_least_among_ranges(numbers: Array, symmetric: bool) -> None:
    found = statistics_of(numbers)
    whole = value_range(found, symmetric=symmetric)

    def error(chosen: Range, levels: int) -> float:
        return float(np.mean((quantized(numbers, chosen, levels, symmetric=symmetric) - numbers) ** 2))

    for levels in (256, 16):
        least = error(value_range(found, "mse", levels=levels, symmetric=symmetric), levels)
        for low in np.linspace(0.1, 1, 10):
            for high in (low,) if symmetric else np.linspace(0.1, 1, 10):
                assert least <= 1.06 * error(Range(whole.low * low, whole.high * high), levels)


def test_percentiles() -> None:
    for percentile in (99.0, 99.99, 100.0):
        for numbers in (NORMAL, np.maximum(NORMAL, 0), -np.maximum(NORMAL, 0), np.append(NORMAL, np.zeros(40_000))):
            found = statistics_of(numbers)
            assert found.histogram is not None
            step = found.histogram.width + 1e-6
            cut = (100 - percentile) / 2
            got = value_range(found, "percentile", percentile=percentile)
            beyond = (numbers > got.high + step).mean(), (numbers < got.low - step).mean()
            assert max(beyond) <= cut / 100
            inside = (numbers >= got.high - step).mean(), (numbers <= got.low + step).mean()
            assert min(inside) >= cut / 100
            assert got.low <= 0 <= got.high
            both = value_range(found, "percentile", percentile=percentile, symmetric=True)
            assert both.high == pytest.approx(np.percentile(np.abs(numbers), percentile), abs=30 * step)


def divergence(counts: Array, start: int, end: int, levels: int) -> float:
    """The Kullback-Leibler divergence of quantizing the bins from `start` to `end` (S. Migacz, GTC 2017), in a loop."""
    reference = counts[start:end].astype(np.float64)
    expanded = np.zeros(end - start)
    for level in range(levels):
        part = slice((end - start) * level // levels, (end - start) * (level + 1) // levels)
        nonempty = reference[part] > 0
        expanded[part][nonempty] = reference[part].sum() / max(nonempty.sum(), 1)
    reference[0] += counts[:start].sum()
    reference[-1] += counts[end:].sum()
    floor = 1e-4 * expanded.sum() / (end - start)
    expanded[[0, -1]] = [max(x, floor) if r else x for x, r in zip(expanded[[0, -1]], reference[[0, -1]], strict=True)]
    used = reference > 0
    p, q = reference[used] / reference.sum(), expanded[used] / counts[start:end].sum()
    return float((p * np.log(p / q)).sum())


@cases(
    ("numbers", "symmetric"),
    {
        "normal symmetric": (NORMAL, True),
        "relu": (np.maximum(NORMAL, 0), False),
        "asymmetric": (NORMAL + np.float32(0.5), False),
        "outliers": (np.append(NORMAL, np.float32([300, -200])), False),
    },
)
def test_entropy_is_least_among_windows(numbers: Array, symmetric: bool) -> None:
    found = statistics_of(numbers)
    assert found.histogram is not None
    width = found.histogram.width
    sides = [np.abs(numbers)] if symmetric else [numbers]
    positions = np.floor(sides[0][sides[0] != 0] / width).astype(int)
    first = min(positions.min(), 0)
    counts, levels = np.bincount(positions - first), 128 if symmetric else 256
    got = value_range(found, "entropy", symmetric=symmetric)
    best = divergence(
        counts, max(round(got.low / width), first) * (not symmetric) - first, round(got.high / width) - first, levels
    )
    for magnitude in np.linspace(levels, len(counts) + first, 25).astype(int):
        start, end = max(-magnitude, first) - first, min(magnitude, len(counts) + first) - first
        if end - start >= levels:
            assert best <= divergence(counts, start, end, levels) * 1.15 + 1e-5


def test_unknown_method_and_percentile_are_refused() -> None:
    found = statistics_of([1.0])
    with pytest.raises(
        ModelError, match="calibration method 'max' is unknown; choose minmax, percentile, entropy, mse"
    ):
        value_range(found, "max")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ModelError, match="percentile 101 is not between 0 and 100"):
        value_range(found, "percentile", percentile=101)
