"""Float64 kernels of operators on sliding windows: convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from .kernel_call import Array, Kernel, KernelCall


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over spatial extents: `kernel`, `strides` and `dilations` by axis, `pads` before and after each."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]

    def padded(self, x: Array, value: float) -> Array:
        """`x` with `value` around its spatial dims, at the end as far as the last window goes."""
        spatial = x.shape[2:]
        widths = [(0, 0), (0, 0)]
        for i, n in enumerate(spatial):
            low, high = self.pads[i]
            reach = (self.counts[i] - 1) * self.strides[i] + (self.kernel[i] - 1) * self.dilations[i] + 1
            widths.append((low, max(high, reach - n - low)))
        if not any(low or high for low, high in widths):
            return x
        return np.pad(x, widths, constant_values=np.asarray(value, x.dtype))

    def positions(self) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """The positions in the kernel, each with the slices of the elements there in all windows."""
        for at in product(*map(range, self.kernel)):
            starts = [p * d for p, d in zip(at, self.dilations, strict=True)]
            spans = zip(starts, self.counts, self.strides, strict=True)
            yield at, (..., *(slice(s, s + max((n - 1) * by + 1, 0), by) for s, n, by in spans))


def windows_of(call: KernelCall, spatial: Sequence[int], kernel: Sequence[int], *, is_pool: bool = False) -> Windows:
    """The windows that the attributes of a node give over spatial extents (operators Conv and AveragePool)."""
    rank = len(spatial)
    strides = tuple(call.get("strides") or (1,) * rank)
    dilations = tuple(call.get("dilations") or (1,) * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    given, mode = call.get("pads") or (0,) * (2 * rank), call.get("auto_pad", "NOTSET")
    pads = [(given[i], given[i + rank]) for i in range(rank)] if mode == "NOTSET" else [(0, 0)] * rank
    if mode.startswith("SAME"):
        for i, n in enumerate(spatial):
            total = max((-(-n // strides[i]) - 1) * strides[i] + reach[i] - n, 0)
            less = total // 2
            pads[i] = (less, total - less) if mode == "SAME_UPPER" else (total - less, less)
    counts: list[int] = []
    for n, (low, high), k, s in zip(spatial, pads, reach, strides, strict=True):
        count, rest = divmod(n + low + high - k, s)
        if is_pool and call.get("ceil_mode") and rest and (count + 1) * s < n + low:
            count += 1  # a window more, unless it would begin in the pads at the end
        counts.append(max(count + 1, 0))
    return Windows(tuple(kernel), strides, dilations, tuple(pads), tuple(counts))


MAX_COLUMNS = 1 << 20  # elements of the windows of a convolution, one beside the other


def convolve(call: KernelCall, x: Array, w: Array) -> Array:
    """The convolution of x (N, C, ...) with w (M, C / group, ...).

    It is one product of matrices for small ones, and one for each position of w for others, which takes less memory.
    """
    group = call.get("group", 1)
    windows = windows_of(call, x.shape[2:], w.shape[2:])
    n, m, c = x.shape[0], w.shape[0], w.shape[1]
    padded = windows.padded(x, 0)
    padded = padded.reshape(n, group, c, *padded.shape[2:])
    weights = w.reshape(group, m // group, c, *w.shape[2:])
    extents = (n, group, m // group, int(np.prod(windows.counts)))
    positions = math.prod(windows.kernel)
    if positions * x.shape[0] * x.shape[1] * extents[-1] <= MAX_COLUMNS:
        spans = [padded[span].reshape(n, group, c, extents[-1]) for _, span in windows.positions()]
        columns = np.stack(spans, axis=3).reshape(n, group, c * positions, extents[-1])
        return (weights.reshape(group, m // group, c * positions) @ columns).reshape(n, m, *windows.counts)
    total = np.zeros_like(x, np.result_type(x, w), shape=extents)
    for at, span in windows.positions():
        columns = padded[span].reshape(n, group, c, total.shape[-1])
        total += weights[(..., *at)] @ columns
    return total.reshape(n, m, *windows.counts)


def _conv(call: KernelCall, x: Array, w: Array, bias: Array | None = None) -> Array:
    y = convolve(call, x, w)
    return y if bias is None else y + bias.reshape(-1, *(1,) * (x.ndim - 2))


def _conv_transpose(call: KernelCall, x: Array, w: Array, bias: Array | None = None) -> Array:
    group, rank = call.get("group", 1), x.ndim - 2
    spatial, kernel = x.shape[2:], w.shape[2:]
    strides = tuple(call.get("strides") or (1,) * rank)
    dilations = tuple(call.get("dilations") or (1,) * rank)
    extra = tuple(call.get("output_padding") or (0,) * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    mode, given = call.get("auto_pad", "NOTSET"), call.get("pads") or (0,) * (2 * rank)
    lows, highs = list(given[:rank]), list(given[rank:])
    wanted = call.get("output_shape")
    if wanted is not None or mode.startswith("SAME"):
        wanted = [n * s for n, s in zip(spatial, strides, strict=True)] if wanted is None else list(wanted)[-rank:]
        for i in range(rank):
            total = max(strides[i] * (spatial[i] - 1) + extra[i] + reach[i] - wanted[i], 0)
            small = total // 2
            lows[i], highs[i] = (small, total - small) if mode == "SAME_UPPER" else (total - small, small)
    elif mode == "VALID":
        lows, highs = [0] * rank, [0] * rank
    n, m = x.shape[0], w.shape[1]
    full = [s * (d - 1) + k + e for s, d, k, e in zip(strides, spatial, reach, extra, strict=True)]
    out = np.zeros_like(x, shape=(n, group, m, *full))
    inputs = x.reshape(n, group, x.shape[1] // group, int(np.prod(spatial)))
    weights = w.reshape(group, w.shape[0] // group, m, *kernel)
    for at in product(*map(range, kernel)) if x.size else ():
        part = np.swapaxes(weights[(..., *at)], 1, 2) @ inputs
        starts = [p * d for p, d in zip(at, dilations, strict=True)]
        span = tuple(slice(b, b + (d - 1) * s + 1, s) for b, d, s in zip(starts, spatial, strides, strict=True))
        out[(..., *span)] += part.reshape(n, group, m, *spatial)
    if wanted is not None:  # may be larger than what the inputs reach
        widths = [(0, max(low + size - f, 0)) for low, size, f in zip(lows, wanted, full, strict=True)]
        out = np.pad(out, ((0, 0), (0, 0), (0, 0), *widths))
        full = out.shape[3:]
    sizes = wanted or [f - low - high for f, low, high in zip(full, lows, highs, strict=True)]
    cut = tuple(slice(low, low + size) for low, size in zip(lows, sizes, strict=True))
    out = out.reshape(n, group * m, *full)[(..., *cut)]
    return out if bias is None else out + bias.reshape(-1, *(1,) * rank)


def average_pool(call: KernelCall, x: Array) -> Array:
    """Averages over windows of x (N, C, ...)."""
    windows = windows_of(call, x.shape[2:], call.get("kernel_shape"), is_pool=True)
    padded = windows.padded(x, 0)
    total = sum((padded[span] for _, span in windows.positions()), np.zeros((*x.shape[:2], *windows.counts)))
    counted = np.ones((1, 1, *x.shape[2:]))
    if call.get("count_include_pad"):
        counted = np.pad(counted, ((0, 0), (0, 0), *windows.pads), constant_values=1)
        bare = Windows(windows.kernel, windows.strides, windows.dilations, ((0, 0),) * (x.ndim - 2), windows.counts)
        counted = bare.padded(counted, 0)
    else:
        counted = windows.padded(counted, 0)
    return total / sum((counted[span] for _, span in windows.positions()), np.zeros((1, 1, *windows.counts)))


def _max_pool(call: KernelCall, x: Array) -> Any:
    windows = windows_of(call, x.shape[2:], call.get("kernel_shape"), is_pool=True)
    lowest = -np.inf if x.dtype == np.float64 else np.iinfo(x.dtype).min
    padded = windows.padded(x, lowest)
    order = "F" if call.get("storage_order") else "C"
    places = np.arange(int(np.prod(x.shape[2:]))).reshape(x.shape[2:], order=order)
    spots = windows.padded(places[None, None], -1)
    best = np.full((*x.shape[:2], *windows.counts), lowest, x.dtype)
    where = np.full(best.shape, -1, np.int64)
    for _, span in windows.positions():
        here, spot = padded[span], spots[span]
        better = (spot >= 0) & ((here > best) | (where < 0) | np.isnan(here.astype(np.float64)))
        best, where = np.where(better, here, best), np.where(better, spot, where)
    if not call.has_output(1):
        return best
    rows = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * (x.ndim - 2))
    return best, where + rows * places.size


def _lp_pool(call: KernelCall, x: Array) -> Array:
    windows = windows_of(call, x.shape[2:], call.get("kernel_shape"), is_pool=True)
    p = call.get("p", 2)
    powers = windows.padded(np.abs(x) ** p, 0)
    total = sum((powers[span] for _, span in windows.positions()), np.zeros((*x.shape[:2], *windows.counts)))
    return total ** (1 / p)


def _over_image(function: Callable[..., Array]) -> Kernel:
    return lambda call, x: function(call, x, tuple(range(2, x.ndim)))


def _global_lp(call: KernelCall, x: Array, axes: tuple[int, ...]) -> Array:
    p = call.get("p", 2)
    return np.sum(np.abs(x) ** p, axis=axes, keepdims=True) ** (1 / p)


def _max_unpool(call: KernelCall, x: Array, indices: Array, shape: Array | None = None) -> Array:
    rank = x.ndim - 2
    kernel, strides = call.get("kernel_shape"), call.get("strides") or (1,) * rank
    pads = call.get("pads") or (0,) * (2 * rank)
    sizes = [(n - 1) * strides[i] - pads[i] - pads[i + rank] + kernel[i] for i, n in enumerate(x.shape[2:])]
    out = np.zeros((*x.shape[:2], *sizes) if shape is None else shape.tolist(), x.dtype)
    out.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    return out


def _col2im(call: KernelCall, x: Array, image: Array, block: Array) -> Array:
    extents, kernel = tuple(image.tolist()), tuple(block.tolist())
    windows = windows_of(call, extents, kernel)
    c = x.shape[1] // int(np.prod(kernel))
    columns = x.reshape(x.shape[0], c, *kernel, *windows.counts)
    padded = np.zeros_like(x, shape=windows.padded(np.zeros((x.shape[0], c, *extents)), 0).shape)
    for at, span in windows.positions():
        padded[span] += columns[(slice(None), slice(None), *at)]
    return padded[(..., *(slice(low, low + n) for (low, _), n in zip(windows.pads, extents, strict=True)))]


def _max_roi_pool(call: KernelCall, x: Array, rois: Array) -> Array:
    height, width = call.get("pooled_shape")
    found = np.zeros((rois.shape[0], x.shape[1], height, width), x.dtype)
    for out, roi in zip(found, rois, strict=True):
        image = x[int(roi[0])]
        # Halves are rounded away from zero.
        left, top, right, bottom = np.floor(roi[1:] * call.get("spatial_scale", 1.0) + 0.5).astype(np.int64).tolist()
        bins = (max(bottom - top + 1, 1) / height, max(right - left + 1, 1) / width)
        for i, j in product(range(height), range(width)):
            rows, columns = (
                slice(
                    *(min(max(v + start, 0), extent) for v in (int(np.floor(at * size)), int(np.ceil((at + 1) * size))))
                )
                for at, size, start, extent in zip((i, j), bins, (top, left), image.shape[1:], strict=True)
            )
            window = image[:, rows, columns]
            out[:, i, j] = window.max(axis=(1, 2)) if window.size else 0
    return found


KERNELS: Mapping[str, Kernel] = {
    "AveragePool": average_pool,
    "Col2Im": _col2im,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GlobalAveragePool": _over_image(lambda _, x, axes: np.mean(x, axis=axes, keepdims=True)),
    "GlobalLpPool": _over_image(_global_lp),
    "GlobalMaxPool": _over_image(lambda _, x, axes: np.max(x, axis=axes, keepdims=True)),
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MaxRoiPool": _max_roi_pool,
    "MaxUnpool": _max_unpool,
}
