"""Operators on windows of images: convolutions, pools, and regions of interest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from ..errors import MatchFailure, require
from ..ir import expressions as sym
from ..ir.expressions import Dim, Shape
from ..ir.op import Op
from .declaration import Family, T
from .element_types import Array
from .elementwise import swish
from .operands import input_shape
from .reference import by_reference, run_node

WINDOW = Family()
SAME_PADDING = frozenset({"SAME_UPPER", "SAME_LOWER"})
Integers = Sequence[int]


class Windows(NamedTuple):
    """Windows over spatial extents: `kernel`, `strides` and `dilations` by axis, `pads` before and after each."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]

    def padded(self, x: Array, value: float) -> Array:
        """Pad the spatial dims of `x` with `value`; at the end, up to the end of the last window."""
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
        """Yield the positions in the kernel, with the slices of the elements at that position in all windows."""
        for at in product(*map(range, self.kernel)):
            starts = [p * d for p, d in zip(at, self.dilations, strict=True)]
            spans = zip(starts, self.counts, self.strides, strict=True)
            yield at, (..., *(slice(s, s + max((n - 1) * by + 1, 0), by) for s, n, by in spans))


def windows_of(
    spatial: Integers, kernel_shape: Integers, *, strides: Integers = (), dilations: Integers = (),
    pads: Integers = (), auto_pad: str = "NOTSET", ceil_mode: int = 0,
) -> Windows:  # fmt: skip
    """The windows over spatial extents for these attributes (operators Conv and AveragePool)."""
    rank = len(spatial)
    strides, dilations = tuple(strides) or (1,) * rank, tuple(dilations) or (1,) * rank
    reach = [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations, strict=True)]
    given = pads or (0,) * (2 * rank)
    around = [(given[i], given[i + rank]) for i in range(rank)] if auto_pad == "NOTSET" else [(0, 0)] * rank
    if auto_pad.startswith("SAME"):
        for i, n in enumerate(spatial):
            total = max((-(-n // strides[i]) - 1) * strides[i] + reach[i] - n, 0)
            less = total // 2
            around[i] = (less, total - less) if auto_pad == "SAME_UPPER" else (total - less, less)
    counts: list[int] = []
    for n, (low, high), k, s in zip(spatial, around, reach, strides, strict=True):
        count, rest = divmod(n + low + high - k, s)
        if ceil_mode and rest and (count + 1) * s < n + low:
            count += 1  # one more window, unless it would begin in the padding at the end
        counts.append(max(count + 1, 0))
    return Windows(tuple(kernel_shape), strides, dilations, tuple(around), tuple(counts))


MAX_COLUMNS = 1 << 20  # elements in all windows of a convolution, for a single product


def convolve(x: Array, w: Array, *, group: int = 1, kernel_shape: Integers = (), **settings: Any) -> Array:
    """The convolution of x (N, C, ...) with w (M, C / group, ...), with `settings` of `windows_of`.

    Small convolutions are one matrix product; others are one for each position of w, which takes less memory.
    """
    windows = windows_of(x.shape[2:], w.shape[2:], **settings)
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


@WINDOW.operator("Conv", T.SAME_DTYPE | T.EMPTY_SAFE | T.CONVOLUTION | T.SMOOTH)
def _conv(x: Array, w: Array, bias: Array | None = None, **settings: Any) -> Array:
    y = convolve(x, w, **settings)
    return y if bias is None else y + bias.reshape(-1, *(1,) * (x.ndim - 2))


@WINDOW.shapes("Conv")
def _shape_of_conv(op: Op) -> list[Shape]:
    return [convolution_shape(op)]


def convolution_shape(op: Op, weights: int = 1) -> Shape:
    """The result shape of an op like Conv, whose filter is the input at `weights`."""
    x, w = _convolution_shapes(op, weights)
    return (x[0], w[0], *_window_extents(op, x[2:], w[2:]))


def _convolution_shapes(op: Op, weights: int = 1) -> tuple[Shape, Shape]:
    """The shapes of the input and of the filter."""
    x, w = input_shape(op), input_shape(op, weights)
    require(len(x) == len(w) > 2, "the rank of the filter differs")
    return x, w


def _window_extents(op: Op, extents: Shape, kernels: Shape) -> list[Dim]:
    """The output extents for windows of sizes `kernels`."""
    is_same = op.attr("auto_pad", "NOTSET") in SAME_PADDING
    out: list[Dim] = []
    for extent, kernel, stride, dilation, padding in _windows(op, extents, kernels):
        if extent is None or not isinstance(kernel, int):
            raise MatchFailure("an extent is unknown")
        if is_same:
            out.append(sym.floor_divide(sym.add(extent, stride - 1), stride))
            continue
        span = sym.add(extent, padding - dilation * (kernel - 1) - 1)
        left = sym.floor_divide(span, stride)
        # Versions of ONNX and onnxruntime disagree on where an incomplete last window lies in the padding.
        is_whole = not op.attr("ceil_mode", 0) or stride == 1 or (isinstance(span, int) and span % stride == 0)
        out.append(sym.add(left, 1) if left is not None and is_whole else None)
    return out


def _windows(op: Op, extents: Shape, kernels: Shape) -> Iterable[tuple[Dim, Dim, int, int, int]]:
    """Yield extent, kernel, stride, dilation and padding at both ends for each spatial axis."""
    n = len(extents)
    strides, dilations = op.attr("strides") or [1] * n, op.attr("dilations") or [1] * n
    pads = op.attr("pads") if op.attr("auto_pad", "NOTSET") != "VALID" else None
    padding = [sum(ends) for ends in zip(pads[:n], pads[n:], strict=False)] if pads else [0] * n
    require(n == len(strides) == len(dilations) == len(padding), "its attributes do not fit the rank")
    return zip(extents, kernels, strides, dilations, padding, strict=True)


@WINDOW.operator("CausalConvWithState", T.SAME_SHAPE | T.SAME_DTYPE | T.KEEPS_FINITE | T.SMOOTH)
def _causal_conv(
    x: Array, w: Array, bias: Array | None = None, past: Array | None = None, *, activation: str = "none"
) -> tuple[Array, Array]:
    before = np.zeros_like(x, shape=(*x.shape[:2], w.shape[2] - 1)) if past is None else past
    padded = np.concatenate((before, x), axis=2)
    y = convolve(padded, w, group=x.shape[1])
    y = y if bias is None else y + bias.reshape(-1, 1)
    return y if activation == "none" else swish(y), padded[..., x.shape[2] :]


@WINDOW.shapes("CausalConvWithState")
def _shape_of_causal_conv(op: Op) -> list[Shape]:
    x, w = _convolution_shapes(op)
    return [x, (*x[:2], None if w[2] is None else sym.subtract(w[2], 1))]


@WINDOW.operator("ConvTranspose", T.SAME_DTYPE | T.CONVOLUTION | T.SMOOTH)
def _conv_transpose(
    x: Array, w: Array, bias: Array | None = None, *, group: int = 1, strides: Integers = (),
    dilations: Integers = (), pads: Integers = (), auto_pad: str = "NOTSET", output_padding: Integers = (),
    output_shape: Integers | None = None,
) -> Array:  # fmt: skip
    rank, mode, wanted = x.ndim - 2, auto_pad, output_shape
    spatial, kernel = x.shape[2:], w.shape[2:]
    strides, dilations = tuple(strides) or (1,) * rank, tuple(dilations) or (1,) * rank
    extra, given = tuple(output_padding) or (0,) * rank, pads or (0,) * (2 * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    lows, highs = list(given[:rank]), list(given[rank:])
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


@WINDOW.shapes("ConvTranspose")
def _shape_of_conv_transpose(op: Op) -> list[Shape]:
    x, w = _convolution_shapes(op)
    spatial = len(x) - 2
    channels = None if w[1] is None else sym.multiply(w[1], int(op.attr("group", 1)))
    out: list[Dim] = [None] * spatial
    if stated := op.attr("output_shape"):
        out = list(stated[-spatial:])
    elif op.attr("auto_pad", "NOTSET") not in SAME_PADDING:  # versions of ONNX and onnxruntime disagree on this
        extra = op.attr("output_padding") or [0] * spatial
        for i, (extent, kernel, stride, dilation, padding) in enumerate(_windows(op, x[2:], w[2:])):
            if extent is not None and isinstance(kernel, int):
                rest = extra[i] + (kernel - 1) * dilation + 1 - padding - stride
                out[i] = sym.add(sym.multiply(extent, stride), rest)
    return [(x[0], channels, *out)]


@WINDOW.operator("AveragePool", T.SAME_DTYPE | T.EMPTY_SAFE)
def average_pool(x: Array, *, count_include_pad: int = 0, **settings: Any) -> Array:
    """Averages over windows of x (N, C, ...), with `settings` of `windows_of`."""
    windows = windows_of(x.shape[2:], **settings)
    padded = windows.padded(x, 0)
    total = sum((padded[span] for _, span in windows.positions()), np.zeros((*x.shape[:2], *windows.counts)))
    counted = np.ones((1, 1, *x.shape[2:]))
    if count_include_pad:
        counted = np.pad(counted, ((0, 0), (0, 0), *windows.pads), constant_values=1)
        bare = Windows(windows.kernel, windows.strides, windows.dilations, ((0, 0),) * (x.ndim - 2), windows.counts)
        counted = bare.padded(counted, 0)
    else:
        counted = windows.padded(counted, 0)
    return total / sum((counted[span] for _, span in windows.positions()), np.zeros((1, 1, *windows.counts)))


@WINDOW.operator("MaxPool", T.SAME_DTYPE | T.SELECTS | T.EMPTY_SAFE | T.DECIDES | T.INTEGER_BITS)
def _max_pool(x: Array, *, storage_order: int = 0, output_count: int, **settings: Any) -> Any:
    windows = windows_of(x.shape[2:], **settings)
    lowest = -np.inf if x.dtype == np.float64 else np.iinfo(x.dtype).min
    padded = windows.padded(x, lowest)
    order = "F" if storage_order else "C"
    places = np.arange(int(np.prod(x.shape[2:]))).reshape(x.shape[2:], order=order)
    spots = windows.padded(places[None, None], -1)
    best = np.full((*x.shape[:2], *windows.counts), lowest, x.dtype)
    where, is_new = np.full(best.shape, -1, np.int64), np.full((1, 1, *windows.counts), True)
    for _, span in windows.positions():
        here, spot = padded[span], spots[span]
        is_nan = np.isnan(here) if x.dtype == np.float64 else False
        better = (spot >= 0) & ((here > best) | is_new | is_nan)
        best, where, is_new = np.where(better, here, best), np.where(better, spot, where), is_new & (spot < 0)
    if output_count < 2:
        return best
    rows = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * (x.ndim - 2))
    return best, where + rows * places.size


@WINDOW.operator("LpPool", T.SAME_DTYPE)
def _lp_pool(x: Array, *, p: float = 2, **settings: Any) -> Array:
    windows = windows_of(x.shape[2:], **settings)
    powers = windows.padded(np.abs(x) ** p, 0)
    total = sum((powers[span] for _, span in windows.positions()), np.zeros((*x.shape[:2], *windows.counts)))
    return total ** (1 / p)


@WINDOW.shapes("AveragePool LpPool MaxPool")
def _shape_of_pool(op: Op) -> list[Shape]:
    """The shape for AveragePool, MaxPool and LpPool."""
    x, kernel = input_shape(op), tuple(op.attr("kernel_shape") or ())
    require(kernel and len(x) == len(kernel) + 2, "the rank of its window differs")
    if op.attr("auto_pad", "NOTSET") in SAME_PADDING and any(d != 1 for d in op.attr("dilations") or ()):
        return [(*x[:2], *[None] * len(kernel))] * 2  # onnxruntime ignores dilations for padding
    return [(*x[:2], *_window_extents(op, x[2:], kernel))] * 2  # MaxPool also returns indices


def _image_axes(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@WINDOW.operator("GlobalAveragePool", T.SAME_DTYPE | T.EMPTY_SAFE)
def global_average_pool(x: Array) -> Array:
    """Averages over the dims of images (N, C, ...), which are kept."""
    return np.mean(x, axis=_image_axes(x), keepdims=True)


@WINDOW.operator("GlobalMaxPool", T.SAME_DTYPE | T.SELECTS | T.EMPTY_SAFE)
def _global_max_pool(x: Array) -> Array:
    return np.max(x, axis=_image_axes(x), keepdims=True)


@WINDOW.operator("GlobalLpPool", T.SAME_DTYPE)
def _global_lp_pool(x: Array, *, p: float = 2) -> Array:
    return np.sum(np.abs(x) ** p, axis=_image_axes(x), keepdims=True) ** (1 / p)


@WINDOW.shapes("GlobalAveragePool GlobalLpPool GlobalMaxPool")
def _shape_of_global_pool(op: Op) -> list[Shape]:
    x = input_shape(op)
    require(len(x) > 1, "its input has no channels")
    return [(*x[:2], *[1] * len(x[2:]))]


@WINDOW.operator("MaxUnpool", T.SAME_DTYPE | T.SELECTS, roles={2: "extent"})
def _max_unpool(
    x: Array, indices: Array, shape: Array | None = None, *, kernel_shape: Integers, strides: Integers = (),
    pads: Integers = (),
) -> Array:  # fmt: skip
    rank = x.ndim - 2
    strides, pads = strides or (1,) * rank, pads or (0,) * (2 * rank)
    sizes = [(n - 1) * strides[i] - pads[i] - pads[i + rank] + kernel_shape[i] for i, n in enumerate(x.shape[2:])]
    out = np.zeros((*x.shape[:2], *sizes) if shape is None else shape.tolist(), x.dtype)
    out.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    return out


@WINDOW.operator("Col2Im", T.SAME_DTYPE, roles={1: "extent", 2: "extent"})
def _col2im(x: Array, image: Array, block: Array, **settings: Any) -> Array:
    extents, kernel = tuple(image.tolist()), tuple(block.tolist())
    windows = windows_of(extents, kernel, **settings)
    c = x.shape[1] // int(np.prod(kernel))
    columns = x.reshape(x.shape[0], c, *kernel, *windows.counts)
    padded = np.zeros_like(x, shape=windows.padded(np.zeros((x.shape[0], c, *extents)), 0).shape)
    for at, span in windows.positions():
        padded[span] += columns[(slice(None), slice(None), *at)]
    return padded[(..., *(slice(low, low + n) for (low, _), n in zip(windows.pads, extents, strict=True)))]


@WINDOW.operator("MaxRoiPool", T.SAME_DTYPE)
def _max_roi_pool(x: Array, rois: Array, *, pooled_shape: Integers, spatial_scale: float = 1.0) -> Array:
    height, width = pooled_shape
    found = np.zeros((rois.shape[0], x.shape[1], height, width), x.dtype)
    for out, roi in zip(found, rois, strict=True):
        image = x[int(roi[0])]
        # Halves are rounded away from zero.
        left, top, right, bottom = np.floor(roi[1:] * spatial_scale + 0.5).astype(np.int64).tolist()
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


WINDOW.declare("DeformConv", T.SAME_DTYPE, by_reference)
WINDOW.declare("NonMaxSuppression", T.DATA_DEPENDENT | T.JUMPS, by_reference, roles={2: "extent", 3: "share"})
WINDOW.declare("RoiAlign", T.SAME_DTYPE, by_reference, roles={1: "region", 2: "index"}, since=16)
WINDOW.declare("ImageDecoder", T.DATA_DEPENDENT | T.JUMPS)


@WINDOW.older("RoiAlign")
def _roi_align_without_half_pixels(*inputs: Any, node: onnx.NodeProto, version: int) -> tuple[Any, ...]:
    shifted = deepcopy(node)
    shifted.attribute.append(helper.make_attribute("coordinate_transformation_mode", "output_half_pixel"))
    return run_node(shifted, version, *inputs)
