"""Float64 kernels of reductions, scans along an axis and the search for extremes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .kernel_call import Array, Kernel, KernelCall

Reduction = Callable[[Array, tuple[int, ...]], Array]


def axes_of(call: KernelCall, given: Array | None, rank: int) -> tuple[int, ...] | None:
    """The axes of an input or attribute `axes`, from 0; None where there is neither."""
    axes: Any = call.get("axes") if given is None else given.reshape(-1).tolist()
    return None if axes is None else tuple(int(axis) % max(rank, 1) for axis in axes)


def _reduction(function: Reduction) -> Kernel:
    """The kernel of a function of an array and the axes that it keeps with extent 1."""

    def kernel(call: KernelCall, x: Array, axes: Array | None = None) -> Array:
        chosen = axes_of(call, axes, x.ndim)
        if not chosen and call.get("noop_with_empty_axes"):
            return x
        chosen = chosen or tuple(range(x.ndim))
        found = function(x, chosen).astype(x.dtype)
        return (
            found if call.get("keepdims", 1) else found.reshape([n for i, n in enumerate(x.shape) if i not in chosen])
        )

    return kernel


def log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    """log(sum(exp(x))) over axes, which are kept, without overflow."""
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    count = int(np.prod([x.shape[a] for a in axes]))
    total = np.sum(x, axis=axes, keepdims=True)
    return total / count if x.dtype.kind == "f" else total // max(count, 1)


def _extreme(function: Any) -> Reduction:
    def reduce(x: Array, axes: tuple[int, ...]) -> Array:
        if all(x.shape[a] for a in axes):
            return function(x, axis=axes, keepdims=True)
        is_max = function is np.max
        info = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        ends = (np.inf, -np.inf) if info is None else (info.max, info.min)
        return function(x, axis=axes, keepdims=True, initial=ends[is_max])

    return reduce


def _arg(function: Any) -> Kernel:
    def kernel(call: KernelCall, x: Array) -> Array:
        axis = call.get("axis", 0)
        if call.get("select_last_index"):
            found = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis)
        else:
            found = function(x, axis=axis)
        return np.expand_dims(found, axis) if call.get("keepdims", 1) else np.asarray(found)

    return kernel


def _cumulation(function: Any, neutral: int) -> Kernel:
    def kernel(call: KernelCall, x: Array, axis: Array) -> Array:
        along = int(axis.reshape(-1)[0]) % x.ndim
        x = np.flip(x, along) if call.get("reverse") else x
        if call.get("exclusive"):
            first = np.full_like(np.take(x, [0], along), neutral)
            x = np.concatenate([first, np.delete(x, -1, along)], axis=along)
        found = function(x, axis=along, dtype=x.dtype)
        return np.flip(found, along) if call.get("reverse") else found

    return kernel


def _top_k(call: KernelCall, x: Array, k: Array | None = None) -> tuple[Array, Array]:
    count = int(call.get("k") if k is None else k.reshape(-1)[0])
    axis = call.get("axis", -1) % x.ndim
    # Equal elements stay in the order of their indices.
    if call.get("largest", 1):
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    chosen = np.take(order, range(count), axis)
    return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    return np.sum(x, axis=axes, keepdims=True, dtype=x.dtype)


def _sum_square(x: Array, axes: tuple[int, ...]) -> Array:
    return _sum(x * x, axes)


KERNELS: Mapping[str, Kernel] = {
    "ArgMax": _arg(np.argmax),
    "ArgMin": _arg(np.argmin),
    "CumProd": _cumulation(np.cumprod, 1),
    "CumSum": _cumulation(np.cumsum, 0),
    "ReduceL1": _reduction(lambda x, axes: _sum(np.abs(x), axes)),
    "ReduceL2": _reduction(lambda x, axes: np.sqrt(_sum_square(x, axes))),
    "ReduceLogSum": _reduction(lambda x, axes: np.log(_sum(x, axes))),
    "ReduceLogSumExp": _reduction(log_sum_exp),
    "ReduceMax": _reduction(_extreme(np.max)),
    "ReduceMean": _reduction(_mean),
    "ReduceMin": _reduction(_extreme(np.min)),
    "ReduceProd": _reduction(lambda x, axes: np.prod(x, axis=axes, keepdims=True, dtype=x.dtype)),
    "ReduceSum": _reduction(_sum),
    "ReduceSumSquare": _reduction(_sum_square),
    "TopK": _top_k,
}
