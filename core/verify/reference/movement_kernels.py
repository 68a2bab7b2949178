"""Kernels of operators that move, select or make elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from .kernel_call import Array, Kernel, KernelCall
from .reduction_kernels import axes_of
from .rounding import NUMPY_DTYPES, widened


def _ints(given: Array | None, default: Any) -> list[int]:
    """The integers of an input, or of the attribute that an older opset has for it."""
    return [int(v) for v in (default if given is None else given.reshape(-1).tolist())]


def _reshape(call: KernelCall, x: Array, shape: Array | None = None) -> Array:
    wanted = _ints(shape, call.get("shape"))
    if not call.get("allowzero"):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    if x.size == 0 and -1 in wanted:
        rest = int(np.prod([n for n in wanted if n != -1]))
        wanted[wanted.index(-1)] = x.size // rest if rest else 0
    return x.reshape(wanted)


def flat(x: Array, axis: int) -> Array:
    """A matrix whose rows are the dims before `axis`, counted from the end if negative."""
    axis = axis + x.ndim if axis < 0 else axis
    rows, columns = (int(np.prod(part, dtype=np.int64)) for part in (x.shape[:axis], x.shape[axis:]))
    return x.reshape(rows, columns)


def _squeeze(call: KernelCall, x: Array, axes: Array | None = None) -> Array:
    return np.squeeze(x, axes_of(call, axes, x.ndim))


def _unsqueeze(call: KernelCall, x: Array, axes: Array | None = None) -> Array:
    chosen = _ints(axes, call.get("axes"))
    return np.expand_dims(x, tuple(a % (x.ndim + len(chosen)) for a in chosen))


def _transpose(call: KernelCall, x: Array) -> Array:
    return np.transpose(x, call.get("perm"))


def _concat(call: KernelCall, *inputs: Array) -> Array:
    return np.concatenate(inputs, axis=call.get("axis", 1))


def _split(call: KernelCall, x: Array, sizes: Array | None = None) -> tuple[Array, ...]:
    axis = call.get("axis", 0) % x.ndim
    given = call.get("split") if sizes is None else sizes.tolist()
    if given is None:
        count = call.get("num_outputs") or call.output_count
        each = -(-x.shape[axis] // count)
        given = [min(each, max(x.shape[axis] - each * i, 0)) for i in range(count)]
    return tuple(np.split(x, np.cumsum(given)[:-1].astype(np.int64), axis))


def _slice(
    call: KernelCall, x: Array, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None
) -> Array:
    first, last = _ints(starts, call.get("starts")), _ints(ends, call.get("ends"))
    along = _ints(axes, call.get("axes") or range(len(first)))
    by = _ints(steps, [1] * len(first))
    window = [slice(None)] * x.ndim
    for start, end, axis, step in zip(first, last, along, by, strict=True):
        extent = x.shape[axis]
        begin, stop = start + extent * (start < 0), end + extent * (end < 0)
        if step > 0:
            window[axis] = slice(min(max(begin, 0), extent), min(max(stop, 0), extent), step)
        else:
            begin, stop = min(max(begin, 0), extent - 1), min(max(stop, -1), extent - 1)
            window[axis] = slice(begin, stop if stop >= 0 else None, step)
    return x[tuple(window)]


def _gather(call: KernelCall, x: Array, indices: Array) -> Array:
    axis = call.get("axis", 0)
    return np.take(x, _checked(indices, x.shape[axis]), axis)


def _checked(indices: Array, extent: int) -> Array:
    """Indices from 0. Raises IndexError for one out of range."""
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        raise IndexError(f"an index is out of range of {extent} elements")
    return np.where(indices < 0, indices + extent, indices)


def _gather_elements(call: KernelCall, x: Array, indices: Array) -> Array:
    axis = call.get("axis", 0) % x.ndim
    at: list[Any] = list(np.indices(indices.shape, sparse=True))
    at[axis] = _checked(indices, x.shape[axis])
    return x[tuple(at)]


def _gather_nd(call: KernelCall, x: Array, indices: Array) -> Array:
    batch = call.get("batch_dims", 0)
    count = int(np.prod(x.shape[:batch], dtype=np.int64))
    rows, places = x.reshape(count, *x.shape[batch:]), indices.reshape(count, *indices.shape[batch:])
    found = np.stack([row[tuple(np.moveaxis(at, -1, 0))] for row, at in zip(rows, places, strict=True)])
    return found.reshape(*x.shape[:batch], *found.shape[1:])


REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _store(out: Array, at: tuple[Any, ...], updates: Array, reduction: str) -> Array:
    if reduction in REDUCTIONS:
        REDUCTIONS[reduction].at(out, at, updates)
    else:
        out[at] = updates
    return out


def _scatter_elements(call: KernelCall, x: Array, indices: Array, updates: Array) -> Array:
    axis = call.get("axis", 0) % x.ndim
    at: list[Any] = list(np.indices(indices.shape))
    at[axis] = _checked(indices, x.shape[axis])
    return _store(x.copy(), tuple(at), updates, call.get("reduction", "none"))


def _scatter_nd(call: KernelCall, x: Array, indices: Array, updates: Array) -> Array:
    at = tuple(np.moveaxis(indices, -1, 0))
    return _store(x.copy(), at, updates, call.get("reduction", "none"))


def _expand(_: KernelCall, x: Array, shape: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))).copy()


def _tile(call: KernelCall, x: Array, repeats: Array, axis: Array | None = None) -> Array:
    if axis is not None:  # opset 1: so many tiles along an axis
        return np.concatenate([x] * int(repeats.reshape(-1)[0]), axis=int(axis.reshape(-1)[0]))
    return np.tile(x, repeats.tolist())


def _pad(
    call: KernelCall, x: Array, pads: Array | None = None, constant: Array | None = None, axes: Array | None = None
) -> Array:
    widths = _ints(pads, call.get("pads") or call.get("paddings"))
    along = [a % x.ndim for a in _ints(axes, range(x.ndim))]
    each = [(0, 0)] * x.ndim
    for i, axis in enumerate(along):
        each[axis] = (widths[i], widths[i + len(along)])
    # Negative widths cut off: before the others are added, as in onnxruntime.
    window = tuple(slice(max(-low, 0), n - max(-high, 0)) for (low, high), n in zip(each, x.shape, strict=True))
    x, added = x[window], [(max(low, 0), max(high, 0)) for low, high in each]
    mode: Any = call.get("mode", "constant")
    if mode != "constant":  # reflect, edge, wrap: NumPy has the same names
        return np.asanyarray(np.pad(x, added, mode=mode))
    value: Any = call.get("value", 0.0) if constant is None else constant.reshape(-1)[0]
    extents = [n + low + high for n, (low, high) in zip(x.shape, added, strict=True)]
    out = np.full_like(x, value, shape=extents)
    out[tuple(slice(low, low + n) for n, (low, _) in zip(x.shape, added, strict=True))] = x
    return out


def _depth_to_space(call: KernelCall, x: Array) -> Array:
    b, (n, c, h, w) = call.get("blocksize"), x.shape
    if call.get("mode", "DCR") == "DCR":
        parts = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // (b * b), h * b, w * b)


def _space_to_depth(call: KernelCall, x: Array) -> Array:
    b, (n, c, h, w) = call.get("blocksize"), x.shape
    parts = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 1, 3, 5, 2, 4) if call.get("mode") == "CRD" else (0, 3, 5, 1, 2, 4)
    return parts.transpose(order).reshape(n, c * b * b, h // b, w // b)


def _reverse_sequence(call: KernelCall, x: Array, lengths: Array) -> Array:
    time, batch = call.get("time_axis", 0), call.get("batch_axis", 1)
    moved = np.moveaxis(x, (batch, time), (0, 1))
    out = moved.copy()
    for row, source, length in zip(out, moved, lengths.tolist(), strict=True):
        row[:length] = source[:length][::-1]
    return np.moveaxis(out, (0, 1), (batch, time))


def _trilu(call: KernelCall, x: Array, k: Array | None = None) -> Array:
    offset = 0 if k is None else int(k.reshape(-1)[0])
    keep = np.tri(*x.shape[-2:], k=offset - bool(call.get("upper", 1)), dtype=bool)
    return np.where(~keep if call.get("upper", 1) else keep, x, np.zeros((), x.dtype))


def _eye_like(call: KernelCall, x: Array) -> Array:
    kind = call.get("dtype") or call.input_type(0) or TensorProto.FLOAT
    return widened(np.eye(*x.shape, k=call.get("k", 0), dtype=helper.tensor_dtype_to_np_dtype(kind)))


def _range(call: KernelCall, start: Array, limit: Array, delta: Array) -> Array:
    # The extent is that of the type in the model: 0.1 in float32 is not the nearest float64.
    dtype = NUMPY_DTYPES.get(call.input_type(0), start.dtype)
    first, last, step = (a.reshape(-1)[0].astype(dtype).astype(start.dtype) for a in (start, limit, delta))
    count = max(int(np.ceil((float(last) - float(first)) / float(step))), 0)
    return (first + np.arange(count).astype(start.dtype) * step).astype(start.dtype)


def _shape(call: KernelCall, x: Any) -> Array:
    window = slice(call.get("start", 0), call.get("end"))
    return np.array(np.shape(x)[window], np.int64)


def _constant_of_shape(call: KernelCall, shape: Array) -> Array:
    value = call.get("value")
    filler = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    return np.full(shape.tolist(), filler[0], filler.dtype)


def _constant(call: KernelCall) -> Any:
    for name in ("value", "sparse_value"):
        if call.get(name) is not None:
            return call.get(name)
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if call.get(name) is not None:
            return np.array(call.get(name), dtype)
    return np.array(call.get("value_string", call.get("value_strings")), object)


def _one_hot(call: KernelCall, indices: Array, depth: Array, values: Array) -> Array:
    count, at = int(depth.reshape(-1)[0]), indices.astype(np.int64)
    axis = call.get("axis", -1)
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    codes = np.arange(count).reshape(-1, *(1,) * (indices.ndim - axis))
    at = np.where(at < 0, at + count, at)
    return np.where(np.expand_dims(at, axis) == codes, values[1], values[0])


def _compress(call: KernelCall, x: Array, condition: Array) -> Array:
    axis = call.get("axis")
    kept = np.flatnonzero(condition)
    return np.take(x.reshape(-1) if axis is None else x, kept, 0 if axis is None else axis)


def _unique(call: KernelCall, x: Array) -> tuple[Array, ...]:
    axis = call.get("axis")
    found, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not call.get("sorted", 1):
        order = np.argsort(first)
        found = np.take(found, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return (found, *(v.astype(np.int64) for v in (first, inverse, counts)))


def _center_crop_pad(call: KernelCall, x: Array, shape: Array) -> Array:
    axes = axes_of(call, None, x.ndim) or tuple(range(x.ndim))
    for axis, wanted in zip(axes, shape.tolist(), strict=True):
        extent = x.shape[axis]
        if wanted <= extent:
            start = (extent - wanted) // 2
            x = np.take(x, range(start, start + wanted), axis)
        else:
            widths = [(0, 0)] * x.ndim
            before = (wanted - extent) // 2
            widths[axis] = (before, wanted - extent - before)
            x = np.pad(x, widths)
    return x


def _tensor_scatter(call: KernelCall, past: Array, update: Array, starts: Array | None = None) -> Array:
    axis = call.get("axis", -2) % past.ndim
    out, count = past.copy(), update.shape[axis]
    first = np.zeros(past.shape[0], np.int64) if starts is None else starts
    for row, new, start in zip(out, update, first.tolist(), strict=True):
        at = start + np.arange(count)
        if call.get("mode", "linear") == "circular":
            at %= past.shape[axis]
        np.moveaxis(row, axis - 1, 0)[at] = np.moveaxis(new, axis - 1, 0)
    return out


def _non_zero(_: KernelCall, x: Array) -> Array:
    return np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64)


KERNELS: Mapping[str, Kernel] = {
    "CenterCropPad": _center_crop_pad,
    "Compress": _compress,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": lambda call, x: flat(x, call.get("axis", 1)),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Size": lambda _, x: np.array(x.size, np.int64),
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "TensorScatter": _tensor_scatter,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unique": _unique,
    "Unsqueeze": _unsqueeze,
}
