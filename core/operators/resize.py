"""Resize, Upsample and GridSample, as onnxruntime interprets them, and AffineGrid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..errors import MatchFailure, require
from ..ir import expressions as sym
from ..ir.expressions import Shape, is_known_nonnegative
from ..ir.op import Op
from ..ir.op_schemas import input_names
from .declaration import Family, T
from .element_types import Array
from .operands import input_shape, normalize_axes, recorded_elements
from .reduction import axes_of

RESIZE = Family()


class _Axis(NamedTuple):
    """An axis: extents before and after, the scale in float32, and the region of interest."""

    size: int
    new_size: int
    scale: np.float32
    roi: tuple[float, float]

    def coordinates(self, mode: str, dtype: type[np.floating[Any]]) -> Array:
        """The positions in the input of the new elements (operator Resize, coordinate_transformation_mode).

        For nearest elements, they are computed in float32, because the rounding of a half may depend on it.
        """
        n, m, scale, at = self.size, self.new_size, dtype(self.scale), np.arange(self.new_size).astype(dtype)
        half, one = dtype(0.5), dtype(1)
        if mode == "asymmetric":
            return at / scale
        if mode == "align_corners":
            return at * dtype(n - 1) / dtype(m - 1) if m > 1 else at * 0
        if mode == "tf_crop_and_resize":
            start, end = map(dtype, self.roi)
            if m == 1:
                return at * 0 + half * (start + end) * dtype(n - 1)
            return start * dtype(n - 1) + at * (end - start) * dtype(n - 1) / dtype(m - 1)
        if mode == "pytorch_half_pixel" and m == 1:
            return at * 0
        found = (at + half) / scale - half
        if mode == "half_pixel_symmetric":
            found = found + dtype(n) / 2 * (one - dtype(m) / (scale * dtype(n)))
        return found


ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}


class _Interpolation(NamedTuple):
    """The attributes of a Resize with these names; without `nearest_mode`, the nearest element is as at opset 10."""

    mode: str
    transform: str
    nearest_mode: str = ""
    cubic_coeff_a: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    extrapolation_value: float = 0.0


def _nearest(how: _Interpolation, axis: _Axis) -> Array:
    x = axis.coordinates(how.transform, np.float32)
    legacy = np.ceil if axis.scale < 1 else np.floor
    found = (ROUNDINGS[how.nearest_mode] if how.nearest_mode else legacy)(x)
    return np.clip(found, 0, axis.size - 1).astype(np.int64)


def _cubic(x: Array, a: float) -> Array:
    """The cubic convolution kernel for a parameter (Keys 1981)."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return np.where(x <= 1, near, np.where(x < 2, ((x - 5) * x + 8) * x * a - 4 * a, 0))


def _weights(how: _Interpolation, axis: _Axis) -> Array:
    """The matrix (new extent, extent) of an interpolation along an axis."""
    x = axis.coordinates(how.transform, np.float64)
    is_cubic = how.mode == "cubic"
    shrink = min(float(axis.scale), 1.0) if how.antialias else 1.0
    if not is_cubic and not how.antialias:
        x = np.clip(x, 0, axis.size - 1)
    reach = int(np.ceil((2 if is_cubic else 1) / shrink)) + 1
    places = np.floor(x).reshape(-1, 1) + np.arange(-reach, reach + 1)
    steps = (places - x.reshape(-1, 1)) * shrink
    values = _cubic(steps, how.cubic_coeff_a) if is_cubic else np.clip(1 - np.abs(steps), 0, None)
    inside = (places >= 0) & (places < axis.size)
    if how.exclude_outside:
        values = np.where(inside, values, 0)
    values = values / values.sum(axis=1, keepdims=True)
    found = np.zeros((axis.new_size, axis.size))
    rows = np.broadcast_to(np.arange(axis.new_size).reshape(-1, 1), places.shape)
    np.add.at(found, (rows, np.clip(places, 0, axis.size - 1).astype(np.int64)), values)
    return found


def _interpolated(how: _Interpolation, x: Array, axes: Mapping[int, _Axis]) -> Array:
    y, outside = x.astype(np.float64), np.zeros((1,) * x.ndim, np.bool_)
    is_crop = how.transform == "tf_crop_and_resize"
    for i, axis in axes.items():
        if axis.scale != 1 or axis.new_size != axis.size or is_crop:
            if how.mode == "nearest":
                y = np.take(y, _nearest(how, axis), i)
            else:
                y = np.moveaxis(np.moveaxis(y, i, -1) @ _weights(how, axis).T, -1, i)
        if is_crop:
            at = axis.coordinates(how.transform, np.float32)
            beyond = (at < 0) | (at > axis.size - 1)
            outside = outside | beyond.reshape(-1, *(1,) * (x.ndim - i - 1))
    if is_crop:
        y = np.where(outside, how.extrapolation_value, y)
    return y.astype(x.dtype) if x.dtype.kind == "f" else np.rint(y).astype(x.dtype)


def _sizes(policy: str, extents: list[int], sizes: list[int]) -> tuple[list[int], list[np.float32]]:
    """The new extents and scales for given sizes."""
    scales = [np.float32(m) / np.float32(n) for m, n in zip(sizes, extents, strict=True)]
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        sizes = [int(np.floor(np.float64(scale) * n + 0.5)) for n in extents]
        scales = [scale] * len(scales)
    return sizes, scales


def _scaled(n: int, scale: np.float32) -> int:
    return int(np.floor(scale * np.float32(n)))


@RESIZE.operator("Resize", T.SAME_DTYPE | T.EMPTY_SAFE, roles={2: "scales", 3: "extent"}, since=11)
def _resize(
    x: Array, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None, *,
    mode: str = "nearest", coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor", cubic_coeff_a: float = -0.75, antialias: int = 0,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Array:  # fmt: skip
    along = list(axes_of(axes, x.ndim) or range(x.ndim))
    extents = [x.shape[a] for a in along]
    if sizes is not None and sizes.size:
        wanted, factors = _sizes(keep_aspect_ratio_policy, extents, sizes.tolist())
    else:
        factors = [np.float32(s) for s in np.asarray(scales).tolist()]
        wanted = [_scaled(n, s) for s, n in zip(factors, extents, strict=True)]
    bounds = [0.0] * len(along) + [1.0] * len(along) if roi is None or not roi.size else roi.tolist()
    resized = {
        a: _Axis(n, m, s, (bounds[i], bounds[i + len(along)]))
        for i, (a, n, m, s) in enumerate(zip(along, extents, wanted, factors, strict=True))
    }
    how = _Interpolation(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(antialias), bool(exclude_outside),
        extrapolation_value,
    )  # fmt: skip
    return _interpolated(how, x, resized)


def _resize_by_scales(x: Array, scales: Any, mode: str) -> Array:
    factors = [np.float32(s) for s in np.asarray(scales).tolist()]
    axes = {i: _Axis(n, _scaled(n, s), s, (0, 1)) for i, (n, s) in enumerate(zip(x.shape, factors, strict=True))}
    return _interpolated(_Interpolation("linear" if mode == "bilinear" else mode, "asymmetric"), x, axes)


@RESIZE.operator("Upsample", T.SAME_DTYPE, roles={1: "scales"})
def _upsample(
    x: Array, scales: Any = None, *, mode: str = "nearest", height_scale: float = 1.0, width_scale: float = 1.0
) -> Array:
    return _resize_by_scales(x, [1.0, 1.0, height_scale, width_scale] if scales is None else scales, mode)


@RESIZE.shapes("Resize Upsample")
def _shape_of_resize(op: Op) -> list[Shape]:
    """The shape for Resize and Upsample to sizes, or by integer scales."""
    x = input_shape(op)
    names = input_names(op.type, op.domain, op.version)
    sizes, scales = (op.input(names.index(name)) if name in names else None for name in ("sizes", "scales"))
    plain = op.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    axes = normalize_axes([int(a) for a in op.attr("axes") or range(len(x))], len(x))
    out = list(x)
    if sizes is not None and plain:
        wanted = recorded_elements(sizes) or (None,) * len(axes)
        are_possible = all(size is None or is_known_nonnegative(size) for size in wanted)
        require(len(wanted) == len(axes) and are_possible, "its sizes do not fit the axes")
        for axis, size in zip(axes, wanted, strict=True):
            out[axis] = size
        return [tuple(out)]
    if any(given is not None and given.tensor is None for given in (sizes, scales)):
        return [tuple(None if i in axes else d for i, d in enumerate(x))]
    if scales is None or scales.tensor is None or scales.tensor.size != len(axes):
        raise MatchFailure("its scales are unknown")
    for axis, scale in zip(axes, scales.const.reshape(-1).tolist(), strict=True):
        d = x[axis]
        require(isinstance(d, int) or scale == int(scale), "a scale of a symbolic dim is not an integer")
        out[axis] = None if d is None else int(d * scale) if isinstance(d, int) else sym.multiply(d, int(scale))
    return [tuple(out)]


@RESIZE.older("Resize", since=10)
def _resize_10(x: Array, scales: Array, *, mode: str = "nearest") -> Array:
    return _resize_by_scales(x, scales, mode)


@RESIZE.operator("AffineGrid", T.SAME_DTYPE, roles={1: "extent"})
def _affine_grid(theta: Array, size: Array, *, align_corners: int = 0) -> Array:
    extents = size.tolist()[2:]
    steps = []
    for n in extents:
        at = np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1
        steps.append(at if n > 1 or not align_corners else np.zeros(1))
    grids = np.meshgrid(*steps, indexing="ij")[::-1]  # x is the last dim
    points = np.stack([*grids, np.ones_like(grids[0])], axis=-1).reshape(-1, len(extents) + 1)
    found = points @ np.swapaxes(theta, 1, 2)
    return found.reshape(theta.shape[0], *extents, len(extents))


class _SampledAxis(NamedTuple):
    """An axis of `extent` elements that GridSample reads, with its lower and upper border."""

    extent: int
    low: float
    high: float
    padding: str

    def reflected(self, at: Array) -> Array:
        """Reflect positions at the borders until they are inside."""
        length = self.high - self.low
        if length == 0:
            return np.full(at.shape, self.low)
        beyond = np.mod(at - self.low, 2 * length)
        return np.where((at < self.low) | (at > self.high), self.low + np.minimum(beyond, 2 * length - beyond), at)

    def elements(self, at: Array) -> tuple[Array, Array]:
        """The indices of integer positions, and whether an element exists there."""
        inside = (at >= 0) & (at < self.extent)
        moved = np.trunc(self.reflected(at)) if self.padding == "reflection" else at
        index = np.clip(np.nan_to_num(moved), 0, self.extent - 1).astype(np.int64)
        return index, inside if self.padding == "zeros" else np.ones_like(inside)


def _taps(mode: str, at: Array) -> list[tuple[Array, Array]]:
    """The integer positions around each position along an axis, with their weights."""
    if mode == "nearest":
        return [(at, np.ones_like(at))]
    first = np.floor(at)
    t = at - first
    if mode == "linear":
        return [(first, 1 - t), (first + 1, t)]
    return [(first + n, _cubic(t - n, -0.75)) for n in (-1, 0, 1, 2)]


@RESIZE.operator("GridSample", T.SAME_DTYPE)
def _grid_sample(
    x: Array, grid: Array, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: int = 0
) -> Array:
    mode, padding, align = mode.removeprefix("bi"), padding_mode, bool(align_corners)
    extents = x.shape[2:]
    axes = [
        _SampledAxis(n, 0.0, n - 1.0, padding) if align else _SampledAxis(n, -0.5, n - 0.5, padding) for n in extents
    ]
    found = np.moveaxis(grid[..., ::-1], -1, 0)  # x is the last dim
    at = [(p + 1) / 2 * (n - 1) if align else ((p + 1) * n - 1) / 2 for p, n in zip(found, extents, strict=True)]
    at = [np.rint(p) for p in at] if mode == "nearest" else at
    if padding == "border" and mode != "cubic":
        outside = np.logical_or.reduce([(p < a.low) | (p > a.high) for p, a in zip(at, axes, strict=True)])
        at = [np.where(outside, np.clip(p, 0, n - 1), p) for p, n in zip(at, extents, strict=True)]
    elif padding == "reflection":
        at = [a.reflected(p) for p, a in zip(at, axes, strict=True)]
    y = np.zeros((x.shape[0], *grid.shape[1:-1], x.shape[1]))
    channels_last = np.moveaxis(x, 1, -1)
    batch = np.arange(x.shape[0]).reshape(-1, *(1,) * len(extents))
    for taps in product(*(_taps(mode, p) for p in at)):
        held = [a.elements(position) for a, (position, _) in zip(axes, taps, strict=True)]
        weight = np.prod([w for _, w in taps], axis=0) * np.logical_and.reduce([inside for _, inside in held])
        y += weight[..., None] * channels_last[(batch, *(index for index, _ in held))]
    return np.moveaxis(y, -1, 1)
