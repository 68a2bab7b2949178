"""Operators that move, select or create elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ..errors import MatchFailure, require
from ..ir import expressions as sym
from ..ir.expressions import Dim, Shape, SymInt, as_integers, is_known_le, is_known_nonnegative, merge_dim
from ..ir.op import Op
from ..ir.tensor import MAX_TRACKED_ELEMENTS
from ..ir.values import Value
from .broadcasting import broadcast
from .declaration import ALL_INPUTS, ANY_KIND, Family, T
from .element_types import NUMPY_DTYPES, Array, type_at, widened
from .operands import (
    INT32_MAX,
    PartialElements,
    full_perm,
    input_dims,
    input_elements,
    input_shape,
    integer_list,
    normalize_axes,
    normalized_axis,
    pad_amounts,
    queried_dims,
    recorded_elements,
    slice_bounds,
    slice_range,
)
from .reduction import axes_of

MOVEMENT = Family()
MOVES = T.MOVES | T.EMPTY_SAFE
Integers = Array | Sequence[int]
"""Integers from an input, or from the corresponding attribute of an older opset."""


def integers(given: Integers | None) -> list[int]:
    """The integers of an input or attribute; empty if there is neither."""
    return [] if given is None else [int(v) for v in np.reshape(given, -1).tolist()]


def _constant_indices(op: Op, size: int) -> list[int]:
    """The constant second input as nonnegative indices of a vector."""
    indices = op.input(1)
    if indices is None or indices.tensor is None:
        raise MatchFailure("the indices are not constant")
    found = [int(i) for i in indices.const.reshape(-1)]
    require(all(-size <= i < size for i in found), "an index is out of range")
    return [i % size for i in found]


def _recorded_size(value: Value) -> int:
    """The number of elements of a value of rank 0 or 1."""
    shape = value.recorded_type[1]
    numbers = None if shape is None else as_integers(shape)
    if numbers is None:
        raise MatchFailure("its extent is unknown")
    return numbers[0] if numbers else 1


@MOVEMENT.operator("Reshape", MOVES | T.PERMUTES, data=(0,), roles={1: "factors"}, exact=ANY_KIND)
def _reshape(x: Array, shape: Integers, *, allowzero: int = 0) -> Array:
    wanted = integers(shape)
    if not allowzero:
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    if x.size == 0 and -1 in wanted:
        rest = int(np.prod([n for n in wanted if n != -1]))
        wanted[wanted.index(-1)] = x.size // rest if rest else 0
    return x.reshape(wanted)


@MOVEMENT.shapes("Reshape")
def _shape_of_reshape(op: Op) -> list[Shape]:
    target: tuple[SymInt, ...] = tuple(op.attr("shape")) if op.version < 5 else input_elements(op, 1)
    given = op.inputs[0].known_shape if op.inputs[0] is not None else None
    x = (None,) * len(target) if given is None else given  # the rank is the length of the target, whatever the input
    out: list[Dim] = []
    for i, e in enumerate(target):
        copied = e == 0 and not op.attr("allowzero", 0)
        require(not copied or i < len(x), "it copies a dim that the input does not have")
        out.append(x[i] if copied else e if is_known_nonnegative(e) else None)
    if target.count(-1) == 1:
        at = target.index(-1)
        out[at] = _inferred_reshape_dim(x, [*out[:at], *out[at + 1 :]])
    return [tuple(out)]


def _inferred_reshape_dim(whole: Shape, others: Sequence[Dim]) -> Dim:
    """The dim at -1, from the input shape and all other dims."""
    if None in whole or None in others or 0 in others:
        return None
    left, taken = list(whole), list(others)
    for d in others:  # equal dims cancel, including symbolic ones
        if d in left:
            left.remove(d)
            taken.remove(d)
    elements, by = (sym.prod(d for d in dims if d is not None) for dims in (left, taken))
    exact = sym.divide(elements, by)
    return sym.floor_divide(elements, by) if exact is None else exact


def flat(x: Array, axis: int) -> Array:
    """Reshape to a matrix whose rows are the dims before `axis`, which may be negative."""
    axis = axis + x.ndim if axis < 0 else axis
    rows, columns = (int(np.prod(part, dtype=np.int64)) for part in (x.shape[:axis], x.shape[axis:]))
    return x.reshape(rows, columns)


@MOVEMENT.operator("Flatten", MOVES | T.HAS_AXIS | T.PERMUTES, data=(0,), exact=ANY_KIND)
def _flatten(x: Array, *, axis: int = 1) -> Array:
    return flat(x, axis)


@MOVEMENT.shapes("Flatten")
def _shape_of_flatten(op: Op) -> list[Shape]:
    x = input_dims(op)
    axis = int(op.attr("axis", 1))
    require(-len(x) <= axis <= len(x), "its axis does not fit the rank")
    axis += len(x) * (axis < 0)
    return [(sym.prod(x[:axis]), sym.prod(x[axis:]))]


@MOVEMENT.operator("Squeeze", MOVES | T.PERMUTES, data=(0,), roles={1: "unit axes"}, exact=ANY_KIND)
def _squeeze(x: Array, axes: Integers | None = None) -> Array:
    return np.squeeze(x, axes_of(axes, x.ndim) or None)  # onnxruntime takes an empty list as none given


@MOVEMENT.shapes("Squeeze")
def _shape_of_squeeze(op: Op) -> list[Shape]:
    x, axes = input_shape(op), integer_list(op, "axes")
    if not axes:
        require(all(isinstance(d, int) for d in x), "it is unknown which dims are 1")
        return [tuple(d for d in x if d != 1)]
    removed = normalize_axes(axes, len(x))
    return [tuple(d for i, d in enumerate(x) if i not in removed)]


@MOVEMENT.operator("Unsqueeze", MOVES | T.PERMUTES, data=(0,), roles={1: "new axes"}, exact=ANY_KIND)
def _unsqueeze(x: Array, axes: Integers) -> Array:
    chosen = integers(axes)
    return np.expand_dims(x, tuple(a % (x.ndim + len(chosen)) for a in chosen))


@MOVEMENT.shapes("Unsqueeze")
def _shape_of_unsqueeze(op: Op) -> list[Shape]:
    x, axes = input_shape(op), integer_list(op, "axes") or []
    rank = len(x) + len(axes)
    new, rest = normalize_axes(axes, rank), iter(x)
    return [tuple(1 if i in new else next(rest) for i in range(rank))]


@MOVEMENT.operator("Transpose", MOVES | T.PERMUTES, data=(0,), exact=ANY_KIND)
def _transpose(x: Array, *, perm: Sequence[int] | None = None) -> Array:
    return np.transpose(x, perm)


@MOVEMENT.shapes("Transpose")
def _shape_of_transpose(op: Op) -> list[Shape]:
    x = input_shape(op)
    perm = full_perm(op.attr("perm"), len(x))
    require(sorted(perm) == list(range(len(x))), "its perm does not fit the rank")
    return [tuple(x[i] for i in perm)]


@MOVEMENT.symbols("Flatten Reshape Squeeze Transpose Unsqueeze")
def elements_in_order(op: Op) -> list[PartialElements]:
    """The elements of the first input, for an operator that keeps them but changes a shape of at most one dim."""
    return [input_elements(op, 0)]


@MOVEMENT.operator(
    "Concat",
    T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS | T.KEEPS_FINITE | T.SMOOTH | T.PLACES | T.LINEAR_TIME,
    data=ALL_INPUTS,
    exact=ANY_KIND,
)
def _concat(*inputs: Array, axis: int = 1) -> Array:
    return np.concatenate(inputs, axis=axis)


@MOVEMENT.shapes("Concat")
def _shape_of_concat(op: Op) -> list[Shape]:
    shapes = [input_shape(op, i) for i in range(len(op.inputs))]
    require(len({len(s) for s in shapes}) == 1, "the ranks differ")
    axis = normalized_axis(op, len(shapes[0]), 1)
    out: list[Dim] = list(shapes[0])
    for s in shapes[1:]:
        for i, d in enumerate(s):
            here = out[i]
            out[i] = merge_dim(here, d) if i != axis else None if here is None or d is None else sym.add(here, d)
    return [tuple(out)]


@MOVEMENT.symbols("Concat")
def _elements_of_concat(op: Op) -> list[PartialElements]:
    out: list[SymInt | None] = []
    for i, v in enumerate(op.inputs):
        found = recorded_elements(v) if v is not None else None
        if found is None:
            (extent,) = input_shape(op, i)
            if not isinstance(extent, int) or extent > MAX_TRACKED_ELEMENTS:
                raise MatchFailure("a piece is too long")
            found = [None] * extent
        out += found
    return [out]


@MOVEMENT.operator("Split", MOVES | T.HAS_AXIS, data=(0,), roles={1: "parts"}, exact=ANY_KIND)
def _split(
    x: Array, split: Integers | None = None, *, axis: int = 0, num_outputs: int = 0, output_count: int
) -> tuple[Array, ...]:
    axis %= x.ndim
    sizes = integers(split)
    if split is None:
        count = num_outputs or output_count
        each = -(-x.shape[axis] // count)
        sizes = [min(each, max(x.shape[axis] - each * i, 0)) for i in range(count)]
    return tuple(np.split(x, np.cumsum(sizes)[:-1].astype(np.int64), axis))


@MOVEMENT.is_exact("Split")
def _splits_all(
    x: Array, split: Integers | None = None, *, axis: int = 0, num_outputs: int = 0, output_count: int
) -> bool:
    sizes = integers(split)
    if split is None:
        return num_outputs in {0, output_count}
    return len(sizes) == output_count and min(sizes, default=0) >= 0 and sum(sizes) == x.shape[axis]


@MOVEMENT.shapes("Split")
def _shape_of_split(op: Op) -> list[Shape]:
    x = input_shape(op)
    axis, n = normalized_axis(op, len(x)), len(op.outputs)
    sizes: tuple[Dim, ...]
    if (op.version < 13 and op.attr("split")) or (op.version >= 13 and op.input(1) is not None):
        sizes = tuple(op.attr("split")) if op.version < 13 else input_elements(op, 1)
        require(len(sizes) == n, "the numbers of sizes and outputs differ")
    else:
        sizes = _equal_parts(x[axis], n)
    return [(*x[:axis], s, *x[axis + 1 :]) for s in sizes]


def _equal_parts(extent: Dim, pieces: int) -> tuple[Dim, ...]:
    """Equal parts; the last one is smaller if the extent is not divisible (operator Split, num_outputs)."""
    if extent is None:
        return (None,) * pieces
    if not isinstance(extent, int):
        return (sym.divide(extent, pieces),) * pieces
    each = -(-extent // pieces)
    return (*[each] * (pieces - 1), max(extent - each * (pieces - 1), 0))


@MOVEMENT.symbols("Split")
def _elements_of_split(op: Op) -> list[PartialElements]:
    source, at, out = input_elements(op, 0), 0, list[PartialElements]()
    for v in op.outputs:
        size = _recorded_size(v)
        out.append(source[at : at + size])
        at += size
    return out


@MOVEMENT.operator("Slice", MOVES, data=(0,), roles={1: "start", 2: "end", 3: "axes", 4: "step"}, exact=ANY_KIND)
def _slice(
    x: Array, starts: Integers, ends: Integers, axes: Integers | None = None, steps: Integers | None = None
) -> Array:
    first, last = integers(starts), integers(ends)
    along = range(len(first)) if axes is None else integers(axes)
    by = integers(steps) if steps is not None else [1] * len(first)
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


@MOVEMENT.shapes("Slice")
def _shape_of_slice(op: Op) -> list[Shape]:
    x = input_shape(op)
    out = list(x)
    for axis, (start, end, step) in slice_bounds(op, len(x)).items():
        extent = x[axis]
        out[axis] = None if extent is None else slice_extent(extent, start, end, step)
    return [tuple(out)]


def slice_extent(extent: SymInt, start: SymInt, end: SymInt, step: int) -> Dim:
    """The output extent of a Slice along an axis of `extent`; None if unknown."""
    if isinstance(extent, int) and isinstance(start, int) and isinstance(end, int):
        run = slice_range(extent, start, end, step)
        return None if run is None else len(run)
    if step < 0:
        from_end = isinstance(start, int) and (start == -1 or start >= INT32_MAX)
        return extent if step == -1 and from_end and isinstance(end, int) and end <= -INT32_MAX else None
    first, last = _clamp_bound(extent, start), _clamp_bound(extent, end)
    if first is None or last is None:
        return None
    span = sym.subtract(last, first) if is_known_le(first, last) else sym.maximum(sym.subtract(last, first), 0)
    return sym.floor_divide(sym.add(span, step - 1), step)


def _clamp_bound(extent: SymInt, bound: SymInt) -> SymInt | None:
    """A bound of a Slice, clamped to 0 ... extent; None if its sign is unknown."""
    if isinstance(bound, int):
        if abs(bound) >= INT32_MAX:
            return extent if bound > 0 else 0
        return sym.minimum(bound, extent) if bound >= 0 else sym.maximum(sym.add(extent, bound), 0)
    return sym.minimum(bound, extent) if is_known_nonnegative(bound) else None


def _checked(indices: Array, extent: int) -> Array:
    """Convert to nonnegative indices. Raises IndexError for an index out of range."""
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        raise IndexError(f"an index is out of range of {extent} elements")
    return np.where(indices < 0, indices + extent, indices)


@MOVEMENT.symbols("Slice")
def _elements_of_slice(op: Op) -> list[PartialElements]:
    source = input_elements(op, 0)
    start, end, step = slice_bounds(op, 1).get(0, (0, len(source), 1))
    if not isinstance(start, int) or not isinstance(end, int):
        raise MatchFailure("its bounds are not constant")
    run = slice_range(len(source), start, end, step)
    if run is None:
        raise MatchFailure("ONNX and onnxruntime disagree on its end")
    return [[source[i] for i in run]]


@MOVEMENT.operator("Gather", MOVES | T.HAS_AXIS, data=(0,), roles={1: "index"}, exact=ANY_KIND)
def _gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    return np.take(x, _checked(indices, x.shape[axis]), axis)


@MOVEMENT.elements("Gather")
def _gathered_elements(x: Array, indices: Array, *, axis: int = 0) -> int:
    extent = x.shape[axis]
    return x.size // extent * indices.size if extent else 0


@MOVEMENT.shapes("Gather")
def _shape_of_gather(op: Op) -> list[Shape]:
    x, indices = input_shape(op, 0), input_shape(op, 1)
    axis = normalized_axis(op, len(x))
    return [(*x[:axis], *indices, *x[axis + 1 :])]


@MOVEMENT.symbols("Gather")
def _elements_of_gather(op: Op) -> list[PartialElements]:
    source = input_elements(op, 0)
    return [[source[i] for i in _constant_indices(op, len(source))]]


@MOVEMENT.operator("GatherElements", MOVES | T.HAS_AXIS, data=(0,), roles={1: "index"})
def _gather_elements(x: Array, indices: Array, *, axis: int = 0) -> Array:
    axis %= x.ndim
    at: list[Any] = list(np.indices(indices.shape, sparse=True))
    at[axis] = _checked(indices, x.shape[axis])
    return x[tuple(at)]


@MOVEMENT.operator("GatherND", MOVES, data=(0,), roles={1: "index"})
def _gather_nd(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    batch = batch_dims
    count = int(np.prod(x.shape[:batch], dtype=np.int64))
    rows, places = x.reshape(count, *x.shape[batch:]), indices.reshape(count, *indices.shape[batch:])
    found = np.stack([row[tuple(np.moveaxis(at, -1, 0))] for row, at in zip(rows, places, strict=True)])
    return found.reshape(*x.shape[:batch], *found.shape[1:])


@MOVEMENT.shapes("GatherElements")
def _shape_of_gather_elements(op: Op) -> list[Shape]:
    return [input_shape(op, 1)]


@MOVEMENT.shapes("GatherND")
def _shape_of_gather_nd(op: Op) -> list[Shape]:
    x, indices, batch = input_shape(op), input_shape(op, 1), int(op.attr("batch_dims", 0))
    depth = indices[-1]
    if not isinstance(depth, int):
        raise MatchFailure("the number of indices is unknown")
    require(0 <= batch < min(len(x), len(indices)) and batch + depth <= len(x), "its indices do not fit the rank")
    return [(*indices[:-1], *x[batch + depth :])]


REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _store(out: Array, at: tuple[Any, ...], updates: Array, reduction: str) -> Array:
    if reduction in REDUCTIONS:
        REDUCTIONS[reduction].at(out, at, updates)
    else:
        out[at] = updates
    return out


SCATTERS = T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE


@MOVEMENT.operator(
    "Scatter", T.SAME_SHAPE | T.SAME_DTYPE | T.HAS_AXIS | T.PLACES | T.LINEAR_TIME, data=(0, 2), roles={1: "index"}
)
@MOVEMENT.operator("ScatterElements", SCATTERS | T.HAS_AXIS | T.PLACES | T.LINEAR_TIME, data=(0, 2), roles={1: "index"})
def _scatter_elements(x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none") -> Array:
    axis %= x.ndim
    at: list[Any] = list(np.indices(indices.shape))
    at[axis] = _checked(indices, x.shape[axis])
    return _store(x.copy(), tuple(at), updates, reduction)


@MOVEMENT.operator("ScatterND", SCATTERS | T.PLACES | T.LINEAR_TIME, data=(0, 2), roles={1: "index"})
def _scatter_nd(x: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    at = tuple(np.moveaxis(indices, -1, 0))
    return _store(x.copy(), at, updates, reduction)


@MOVEMENT.symbols("ScatterND ScatterElements")
def _elements_of_scatter(op: Op) -> list[PartialElements]:
    """ScatterND and ScatterElements into a vector at distinct constant indices."""
    source, updates = list(input_elements(op, 0)), input_elements(op, 2)
    require(op.attr("reduction", "none") == "none" and normalized_axis(op, 1) == 0, "it reduces")
    indices = _constant_indices(op, len(source))
    require(len(indices) == len(updates) == len(set(indices)), "an index occurs twice")
    for i, x in zip(indices, updates, strict=True):
        source[i] = x
    return [source]


@MOVEMENT.operator("TensorScatter", T.SAME_SHAPE | T.SAME_DTYPE | T.PLACES | T.LINEAR_TIME, data=(0, 1))
def _tensor_scatter(
    past: Array, update: Array, starts: Array | None = None, *, axis: int = -2, mode: str = "linear"
) -> Array:
    axis %= past.ndim
    out, count = past.copy(), update.shape[axis]
    first = np.zeros(past.shape[0], np.int64) if starts is None else starts
    for i, start in enumerate(first.tolist()):
        at = start + np.arange(count)
        if mode == "circular":
            at %= past.shape[axis]
        out[(slice(i, i + 1), *(slice(None),) * (axis - 1), at)] = update[i : i + 1]
    return out


@MOVEMENT.operator("Expand", MOVES, data=(0,), roles={1: "stretch"}, exact=ANY_KIND)
def _expand(x: Array, shape: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))).copy()


@MOVEMENT.elements("Expand")
def _expanded_elements(x: Array, shape: Array) -> int:
    return prod(np.broadcast_shapes(x.shape, tuple(shape.tolist())))


@MOVEMENT.shapes("Expand")
def _shape_of_expand(op: Op) -> list[Shape]:
    target = input_elements(op, 1)
    require(all(map(is_known_nonnegative, target)), "its target shape is unknown")
    return [broadcast([input_shape(op), target]) or ()]


@MOVEMENT.operator("Tile", MOVES, data=(0,), roles={1: "extent"}, exact=ANY_KIND)
def _tile(x: Array, repeats: Array, axis: Array | None = None) -> Array:
    if axis is not None:  # opset 1: the number of tiles along an axis
        return np.concatenate([x] * int(repeats.reshape(-1)[0]), axis=int(axis.reshape(-1)[0]))
    counts = integers(repeats)
    kept = x[tuple(slice(None if n else 0) for n in counts)]  # NumPy repeats one dim after the other, even before a 0
    return np.tile(kept, [n or 1 for n in counts])


@MOVEMENT.is_exact("Tile")
def _repeats_each_dim(x: Array, repeats: Array) -> bool:
    return repeats.shape == (x.ndim,) and min(integers(repeats), default=0) >= 0


@MOVEMENT.elements("Tile")
def _tiled_elements(x: Array, repeats: Array) -> int:
    return x.size * prod(integers(repeats))


@MOVEMENT.shapes("Tile")
def _shape_of_tile(op: Op) -> list[Shape]:
    x, times = input_shape(op), input_elements(op, 1)
    require(op.version >= 6 and len(times) == len(x), "its repeats do not fit the rank")
    return [tuple(None if d is None else sym.multiply(d, n) for d, n in zip(x, times, strict=True))]


@MOVEMENT.symbols("Expand Tile")
def _elements_of_repetition(op: Op) -> list[PartialElements]:
    """Expand and Tile."""
    source, extent = input_elements(op, 0), _recorded_size(op.outputs[0])
    require(len(source) > 0, "there is nothing to repeat")
    return [list(source) * (extent // len(source))]


@MOVEMENT.operator(
    "Pad", T.SAME_DTYPE | T.EMPTY_SAFE | T.PLACES | T.LINEAR_TIME, data=(0,), roles={1: "pads", 3: "axes"}, since=2
)
def _pad(
    x: Array, pads: Integers, constant: Array | None = None, axes: Integers | None = None, *,
    mode: Any = "constant", value: float = 0.0,
) -> Array:  # fmt: skip
    widths = integers(pads)
    along = range(x.ndim) if axes is None else [a % x.ndim for a in integers(axes)]
    each = [(0, 0)] * x.ndim
    for i, axis in enumerate(along):
        each[axis] = (widths[i], widths[i + len(along)])
    # Negative widths remove elements before others are added, as in onnxruntime.
    window = tuple(slice(max(-low, 0), n - max(-high, 0)) for (low, high), n in zip(each, x.shape, strict=True))
    x, added = x[window], [(max(low, 0), max(high, 0)) for low, high in each]
    if mode != "constant":  # NumPy uses the same names: reflect, edge, wrap
        padded: Array = np.pad(x, added, mode=mode)
        return padded
    filler: Any = value if constant is None else constant.reshape(-1)[0]
    extents = [n + low + high for n, (low, high) in zip(x.shape, added, strict=True)]
    out = np.full_like(x, filler, shape=extents)
    out[tuple(slice(low, low + n) for n, (low, _) in zip(x.shape, added, strict=True))] = x
    return out


@MOVEMENT.older("Pad")
def _pad_by_paddings(x: Array, *, paddings: Sequence[int], mode: str = "constant", value: float = 0.0) -> Array:
    return _pad(x, paddings, mode=mode, value=value)


@MOVEMENT.shapes("Pad")
def _shape_of_pad(op: Op) -> list[Shape]:
    x = input_shape(op)
    amounts = pad_amounts(op, len(x))
    padded = zip(x, amounts[: len(x)], amounts[len(x) :], strict=True)
    return [tuple(None if d is None else sym.add(d, sym.add(before, after)) for d, before, after in padded)]


@MOVEMENT.operator("CenterCropPad", T.SAME_DTYPE | T.PLACES, data=(0,), roles={1: "extent"})
def _center_crop_pad(x: Array, shape: Array, *, axes: Sequence[int] | None = None) -> Array:
    for axis, wanted in zip(axes_of(axes, x.ndim) or range(x.ndim), shape.tolist(), strict=True):
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


@MOVEMENT.operator("DepthToSpace", MOVES | T.PERMUTES, data=(0,))
def _depth_to_space(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    b, (n, c, h, w) = blocksize, x.shape
    if mode == "DCR":
        parts = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // (b * b), h * b, w * b)


@MOVEMENT.operator("SpaceToDepth", MOVES | T.PERMUTES, data=(0,))
def _space_to_depth(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    b, (n, c, h, w) = blocksize, x.shape
    parts = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return parts.transpose(order).reshape(n, c * b * b, h // b, w // b)


@MOVEMENT.shapes("DepthToSpace SpaceToDepth")
def _shape_of_depth_and_space(op: Op) -> list[Shape]:
    n, c, h, w = input_dims(op)
    block = int(op.attr("blocksize"))
    if op.type == "DepthToSpace":
        return [(n, sym.floor_divide(c, block * block), sym.multiply(h, block), sym.multiply(w, block))]
    return [(n, sym.multiply(c, block * block), sym.floor_divide(h, block), sym.floor_divide(w, block))]


@MOVEMENT.operator(
    "ReverseSequence", T.MOVES | T.SAME_SHAPE | T.PERMUTES | T.LINEAR_TIME, data=(0,), roles={1: "count"}
)
def _reverse_sequence(x: Array, lengths: Array, *, time_axis: int = 0, batch_axis: int = 1) -> Array:
    moved = np.moveaxis(x, (batch_axis, time_axis), (0, 1))
    out = moved.copy()
    for i, length in enumerate(lengths.tolist()):
        out[i, :length] = moved[i, :length][::-1]
    return np.moveaxis(out, (0, 1), (batch_axis, time_axis))


@MOVEMENT.operator(
    "Trilu", T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.KEEPS_FINITE | T.PLACES | T.LINEAR_TIME, data=(0,)
)
def trilu(x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    """The upper or lower triangle of matrices, from diagonal `k`."""
    offset = 0 if k is None else int(k.reshape(-1)[0])
    keep = np.tri(*x.shape[-2:], k=offset - bool(upper), dtype=bool)
    return np.where(~keep if upper else keep, x, np.zeros((), x.dtype))


@MOVEMENT.operator("EyeLike", T.SAME_SHAPE | T.READS_SHAPE)
def _eye_like(x: Array, *, dtype: int = 0, k: int = 0, input_types: Sequence[int]) -> Array:
    kind = dtype or type_at(input_types, 0) or TensorProto.FLOAT
    return widened(np.eye(*x.shape, k=k, dtype=helper.tensor_dtype_to_np_dtype(kind)))


@MOVEMENT.operator(
    "Range", T.SAME_DTYPE | T.EMPTY_SAFE | T.LINEAR_TIME, roles={0: "start", 1: "limit", 2: "step"}, exact="iu"
)
def _range(start: Array, limit: Array, delta: Array, *, input_types: Sequence[int]) -> Array:
    # The extent is computed in the model's type: 0.1 in float32 is not the nearest float64.
    dtype = NUMPY_DTYPES.get(type_at(input_types, 0), start.dtype)
    first, last, step = (a.reshape(-1)[0].astype(dtype).astype(start.dtype) for a in (start, limit, delta))
    if start.dtype.kind in "iu":
        return np.array(range(int(first), int(last), int(step)), start.dtype)
    count = max(int(np.ceil((float(last) - float(first)) / float(step))), 0)
    return (first + np.arange(count).astype(start.dtype) * step).astype(start.dtype)


@MOVEMENT.is_exact("Range")
def _is_range_of_integers(start: Array, limit: Array, delta: Array) -> bool:
    return start.dtype.kind in "iu" and start.dtype == limit.dtype == delta.dtype


@MOVEMENT.elements("Range")
def _range_elements(start: Array, limit: Array, delta: Array) -> int:
    return len(range(*(int(a.reshape(-1)[0]) for a in (start, limit, delta))))


@MOVEMENT.shapes("Range")
def _shape_of_range(op: Op) -> list[Shape]:
    ends = [input_elements(op, i) for i in range(3)]
    require(all(len(e) == 1 for e in ends), "its bounds are not scalars")
    (start,), (limit,), (step,) = ends
    if not isinstance(step, int) or step == 0:
        raise MatchFailure("its step is not constant")
    span = sym.subtract(limit, start) if step > 0 else sym.subtract(start, limit)
    count = sym.floor_divide(sym.add(span, abs(step) - 1), abs(step))
    return [(None if count is None else sym.maximum(count, 0),)]


@MOVEMENT.symbols("Range")
def _elements_of_range(op: Op) -> list[PartialElements]:
    (start,), (step,) = input_elements(op, 0), input_elements(op, 2)
    return [[sym.add(start, sym.multiply(step, i)) for i in range(_recorded_size(op.outputs[0]))]]


@MOVEMENT.operator("Shape", T.TOTAL | T.QUERIES | T.READS_SHAPE | T.EMPTY_SAFE, exact=ANY_KIND)
def _shape(x: Any, *, start: int = 0, end: int | None = None) -> Array:
    return np.array(np.shape(x)[start:end], np.int64)


@MOVEMENT.shapes("Shape")
def _shape_of_shape(op: Op) -> list[Shape]:
    return [(len(queried_dims(op)),)]


@MOVEMENT.symbols("Shape")
def _elements_of_shape(op: Op) -> list[PartialElements]:
    return [queried_dims(op)]


@MOVEMENT.operator("Size", T.TOTAL | T.QUERIES | T.READS_SHAPE | T.EMPTY_SAFE, exact=ANY_KIND)
def _size(x: Array) -> Array:
    return np.array(x.size, np.int64)


@MOVEMENT.symbols("Size")
def _elements_of_size(op: Op) -> list[PartialElements]:
    return [[sym.prod(input_dims(op))]]


@MOVEMENT.shapes("Size")
def _shape_of_size(_: Op) -> list[Shape]:
    return [()]


@MOVEMENT.operator("ConstantOfShape", T.EMPTY_SAFE | T.LINEAR_TIME, roles={0: "extent"}, exact=ANY_KIND)
def _constant_of_shape(shape: Array, *, value: Array | None = None) -> Array:
    filler = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    return np.full(shape.tolist(), filler[0], filler.dtype)


@MOVEMENT.elements("ConstantOfShape")
def _filled_elements(shape: Array) -> int:
    return prod(integers(shape))


@MOVEMENT.shapes("ConstantOfShape")
def _shape_of_constant_of_shape(op: Op) -> list[Shape]:
    target = input_elements(op, 0)
    return [tuple(e if is_known_nonnegative(e) else None for e in target)]


@MOVEMENT.symbols("ConstantOfShape")
def _elements_of_constant(op: Op) -> list[PartialElements]:
    fill = op.attr("value")
    return [[0 if fill is None else int(fill.array.reshape(-1)[0])] * _recorded_size(op.outputs[0])]


@MOVEMENT.operator("Constant", T.EMPTY_SAFE | T.LINEAR_TIME)
def _constant(
    *, value: Any = None, sparse_value: Any = None, value_float: float | None = None,
    value_floats: Sequence[float] | None = None, value_int: int | None = None, value_ints: Sequence[int] | None = None,
    value_string: str | None = None, value_strings: Sequence[str] | None = None,
) -> Any:  # fmt: skip
    if value is not None:
        return value
    if sparse_value is not None:
        return sparse_value
    for given, dtype in (
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_int, np.int64),
        (value_ints, np.int64),
    ):
        if given is not None:
            return np.array(given, dtype)
    return np.array(value_strings if value_string is None else value_string, object)


@MOVEMENT.operator("OneHot", T.SELECTS | T.EMPTY_SAFE | T.DECIDES | T.LINEAR_TIME, roles={0: "index", 1: "extent"})
def _one_hot(indices: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    count, at = int(depth.reshape(-1)[0]), indices.astype(np.int64)
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    codes = np.arange(count).reshape(-1, *(1,) * (indices.ndim - axis))
    at = np.where(at < 0, at + count, at)
    return np.where(np.expand_dims(at, axis) == codes, values[1], values[0])


@MOVEMENT.shapes("OneHot")
def _shape_of_one_hot(op: Op) -> list[Shape]:
    indices, depth = input_shape(op), op.input(1)
    axis, rank = int(op.attr("axis", -1)), len(indices) + 1
    require(-rank <= axis < rank, f"axis {axis} does not fit rank {rank}")
    found = (recorded_elements(depth) if depth is not None else None) or (None,)
    return [(*indices[: axis % rank], found[0], *indices[axis % rank :])]


@MOVEMENT.operator("Compress", T.MOVES | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS | T.JUMPS, data=(0,))
def _compress(x: Array, condition: Array, *, axis: int | None = None) -> Array:
    kept = np.flatnonzero(condition)
    return np.take(x.reshape(-1) if axis is None else x, kept, 0 if axis is None else axis)


@MOVEMENT.operator(
    "Unique", T.SAME_DTYPE | T.SELECTS | T.DATA_DEPENDENT | T.HAS_AXIS | T.JUMPS | T.DECIDES | T.LINEAR_TIME
)
def _unique(x: Array, *, axis: int | None = None, sorted: int = 1) -> tuple[Array, ...]:
    found, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        found = np.take(found, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return (found, *(v.astype(np.int64) for v in (first, inverse, counts)))


@MOVEMENT.operator("NonZero", T.QUERIES | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.JUMPS | T.DECIDES)
def _non_zero(x: Array) -> Array:
    return np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64)


@MOVEMENT.shapes("NonZero")
def _shape_of_non_zero(op: Op) -> list[Shape]:
    # One row for each dim. A scalar has no row in ONNX and one in onnxruntime, so it is unknown.
    return [(len(input_shape(op)) or None, None)]


MOVEMENT.declare("Multinomial RandomNormal RandomUniform", T.RANDOM)
MOVEMENT.declare("RandomNormalLike RandomUniformLike", T.SAME_SHAPE | T.READS_SHAPE | T.RANDOM)
MOVEMENT.declare("Bernoulli", T.SAME_SHAPE | T.RANDOM, roles={0: "share"})
