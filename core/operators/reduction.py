"""Reductions, cumulations along an axis, and searches for extremes."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np

from ..ir import expressions as sym
from ..ir.expressions import Shape
from ..ir.op import Op
from ..ir.values import Value
from . import symbolic_integers as symbolic
from .declaration import Family, T
from .element_types import Array
from .operands import attribute_or_input, input_shape, integer_list, normalize_axes, normalized_axis, recorded_elements

Axes = tuple[int, ...]
Reduction = Callable[[Array, Axes], Array]
REDUCTION = Family()
SEARCH = T.QUERIES | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS | T.JUMPS


def axes_of(axes: Any, rank: int) -> Axes | None:
    """The nonnegative axes in an input or attribute; None if there is neither."""
    return None if axes is None else tuple(int(axis) % max(rank, 1) for axis in np.reshape(axes, -1).tolist())


def log_sum_exp(x: Array, axes: Axes) -> Array:
    """log(sum(exp(x))) over axes, which are kept, without overflow."""
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top


def _mean(x: Array, axes: Axes) -> Array:
    count = int(np.prod([x.shape[a] for a in axes]))
    total = np.sum(x, axis=axes, keepdims=True)
    return total / count if x.dtype.kind == "f" else total // max(count, 1)


def _extreme(function: Any) -> Reduction:
    def reduce(x: Array, axes: Axes) -> Array:
        if all(x.shape[a] for a in axes):
            return function(x, axis=axes, keepdims=True)
        is_max = function is np.max
        info = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        ends = (np.inf, -np.inf) if info is None else (info.max, info.min)
        return function(x, axis=axes, keepdims=True, initial=ends[is_max])

    return reduce


def _sum(x: Array, axes: Axes) -> Array:
    return np.sum(x, axis=axes, keepdims=True, dtype=x.dtype)


def _sum_square(x: Array, axes: Axes) -> Array:
    return _sum(x * x, axes)


def _product(x: Array, axes: Axes) -> Array:
    return np.prod(x, axis=axes, keepdims=True, dtype=x.dtype)


def _norm_1(x: Array, axes: Axes) -> Array:
    return _sum(np.abs(x), axes)


def _norm_2(x: Array, axes: Axes) -> Array:
    return np.sqrt(_sum_square(x, axes))


def _log_sum(x: Array, axes: Axes) -> Array:
    return np.log(_sum(x, axes))


def _reducing(function: Reduction) -> Callable[..., Array]:
    """The meaning for a function of an array and of the axes that it keeps with extent 1."""

    def reduced(x: Array, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Array:
        chosen = axes_of(axes, x.ndim)
        if not chosen and noop_with_empty_axes:
            return x
        chosen = chosen or tuple(range(x.ndim))
        found = function(x, chosen).astype(x.dtype)
        return found if keepdims else found.reshape([n for i, n in enumerate(x.shape) if i not in chosen])

    return reduced


for name, traits, reduction, exact in (
    ("ReduceL1", T.REDUCES, _norm_1, ""),
    ("ReduceL2", T.REDUCES, _norm_2, ""),
    ("ReduceLogSum", T.REDUCES, _log_sum, ""),
    ("ReduceLogSumExp", T.REDUCES | T.SMOOTH, log_sum_exp, ""),
    ("ReduceMax", T.REDUCES | T.SELECTS | T.ROUNDS_ONCE, _extreme(np.max), "iu"),
    ("ReduceMean", T.REDUCES | T.KEEPS_FINITE | T.SMOOTH, _mean, ""),
    ("ReduceMin", T.REDUCES | T.SELECTS | T.ROUNDS_ONCE, _extreme(np.min), "iu"),
    ("ReduceProd", T.REDUCES | T.RING, _product, "iu"),
    ("ReduceSum", T.REDUCES | T.SMOOTH | T.RING, _sum, "iu"),
    ("ReduceSumSquare", T.REDUCES | T.RING, _sum_square, ""),
):
    REDUCTION.declare(name, traits, _reducing(reduction), roles={1: "axes"}, exact=exact)


MAX_EXACT_INTEGER = 2**53  # of float64


def _stays_within(magnitude: np.ufunc) -> Callable[..., bool]:
    """Test that no result of an integer reduction is too large; it is bounded by `magnitude` of the elements.

    onnxruntime 1.31 computes some of them in float64, and saturates.
    """

    def is_exact(x: Array, axes: Any = None, *, noop_with_empty_axes: int = 0) -> bool:
        chosen = axes_of(axes, x.ndim) or None
        if not x.size or (not chosen and noop_with_empty_axes):
            return False
        largest = magnitude.reduce(np.maximum(np.abs(x.astype(np.float64)), 1), axis=chosen)
        return bool(np.all(largest <= min(np.iinfo(x.dtype).max, MAX_EXACT_INTEGER)))

    return is_exact


for names, magnitude in (("ReduceMax ReduceMin", np.maximum), ("ReduceProd", np.multiply), ("ReduceSum", np.add)):
    REDUCTION.is_exact(names)(_stays_within(magnitude))


@REDUCTION.shapes(" ".join(REDUCTION.operators))
def _shape_of_reduction(op: Op) -> list[Shape]:
    x, axes = input_shape(op), integer_list(op, "axes")
    if not axes and op.attr("noop_with_empty_axes", 0):
        return [x]
    return [reduced_shape(x, set(normalize_axes(axes, len(x)) if axes else range(len(x))), op.attr("keepdims", 1))]


def reduced_shape(x: Shape, axes: Container[int], keepdims: int) -> Shape:
    """A shape with extents of 1 at `axes`, or without these axes."""
    return tuple(1 if i in axes else d for i, d in enumerate(x) if keepdims or i not in axes)


for name, symbols in (
    ("ReduceMax", symbolic.reduction(sym.maximum)),
    ("ReduceMin", symbolic.reduction(sym.minimum)),
    ("ReduceProd", symbolic.reduction(sym.multiply, 1)),
    ("ReduceSum", symbolic.reduction(sym.add, 0)),
):
    REDUCTION.symbols(name)(symbols)


def _searching(function: Any) -> Callable[..., Array]:
    def found(x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        if select_last_index:
            index = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis)
        else:
            index = function(x, axis=axis)
        return np.expand_dims(index, axis) if keepdims else index

    return found


REDUCTION.declare("ArgMax", SEARCH | T.DECIDES | T.INTEGER_BITS, _searching(np.argmax))
REDUCTION.declare("ArgMin", SEARCH | T.DECIDES | T.INTEGER_BITS, _searching(np.argmin))


@REDUCTION.shapes("ArgMax ArgMin")
def _shape_of_search(op: Op) -> list[Shape]:
    x = input_shape(op)
    return [reduced_shape(x, {normalized_axis(op, len(x))}, op.attr("keepdims", 1))]


def _cumulating(function: Any, neutral: int) -> Callable[..., Array]:
    def cumulated(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
        along = int(axis.reshape(-1)[0]) % x.ndim
        x = np.flip(x, along) if reverse else x
        if exclusive:
            first = np.full_like(np.take(x, [0], along), neutral)
            x = np.concatenate([first, np.delete(x, -1, along)], axis=along)
        found = function(x, axis=along, dtype=x.dtype)
        return np.flip(found, along) if reverse else found

    return cumulated


REDUCTION.declare("CumProd", T.SAME_SHAPE | T.SAME_DTYPE | T.LINEAR_TIME, _cumulating(np.cumprod, 1), roles={1: "axes"})
REDUCTION.declare(
    "CumSum",
    T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.RING | T.LINEAR_TIME,
    _cumulating(np.cumsum, 0),
    roles={1: "axes"},
)


@REDUCTION.operator(
    "TopK",
    T.SAME_DTYPE | T.SELECTS | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS | T.JUMPS | T.DECIDES | T.LINEAR_TIME,
    roles={1: "count"},
)
def _top_k(x: Array, k: Any, *, axis: int = -1, largest: int = 1) -> tuple[Array, Array]:
    count, axis = int(np.reshape(k, -1)[0]), axis % x.ndim
    # Equal elements are ordered by their indices.
    if largest:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    chosen = np.take(order, range(count), axis)
    return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)


@REDUCTION.shapes("TopK")
def _shape_of_top_k(op: Op) -> list[Shape]:
    x, k = input_shape(op), attribute_or_input(op, "k" if op.version < 10 else "K")
    axis = normalized_axis(op, len(x), -1)
    (count,) = (recorded_elements(k) or (None,)) if isinstance(k, Value) else (k,)
    shape = (*x[:axis], count, *x[axis + 1 :])
    return [shape, shape]
