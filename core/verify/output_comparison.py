"""Comparing one output of the original with the same output of what was made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from .noise import SILENT, Noise, is_float
from .tolerance import as_many, close, floor_share, most_excused, same_bits
from .verdict import Difference

Array = np.ndarray[Any, Any]


def compare(want: Any, got: Any, *, exact: bool, values: bool = True, noise: Noise = SILENT) -> Difference:
    """Compare two results: types, shapes, then values. NaN equals NaN; bit for bit if `exact`.

    Otherwise floats may differ as far as the original's `noise` allows, and single elements of any type where
    the original jumps too. Without `values`, only types and ranks count: what is random may decide on extents too.
    """
    maps, others = _float_maps(want), _float_maps(got)
    if maps is not None and others is not None and maps.keys == others.keys:
        return compare(maps.values, others.values, exact=exact, values=values, noise=noise.part(_values))
    if _is_container(want) or _is_container(got):
        return _compare_containers(want, got, exact=exact, values=values, noise=noise)
    a, b = np.asarray(want), np.asarray(got)
    if _kind(a) != _kind(b) or a.ndim != b.ndim or (values and a.shape != b.shape):
        return Difference(reason=f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}")
    if not values or a.size == 0:
        return Difference()
    if is_float(a.dtype):
        return same_bits(a, b) if exact else close(a, b, noise)
    return _equal(a, b, SILENT if exact else noise)


def usual_floor(want: Any, noise: Noise) -> float:
    """The noise floor of a result as a share of its largest magnitude, the largest over its parts."""
    maps = _float_maps(want)
    if maps is not None:
        return floor_share(maps.values, noise.part(_values))
    if _is_container(want):
        parts = _entries(want)[1]
        return max((usual_floor(p, noise.part(_entry(i))) for i, p in enumerate(parts)), default=0.0)
    a = np.asarray(want)
    return floor_share(a, noise) if is_float(a.dtype) else 0.0


def _equal(a: Array, b: Array, noise: Noise) -> Difference:
    """An element that differs is excused where the original changes it too, but never most of them."""
    off = np.asarray(a != b)
    wrong = int(np.count_nonzero(off))
    if not wrong:
        return Difference()
    moves = noise.like(a) if noise.excuses else []
    for deeper in (False, True):
        moves += [m for m, _ in noise.more_like(a)] if deeper else []
        jumps = [np.asarray(m != a) for m in moves]
        explained = np.logical_or.reduce([off & j for j in jumps]) if jumps else np.zeros_like(off)
        if int(np.count_nonzero(explained)) == wrong <= most_excused(a.size):
            return Difference(excused=wrong)
    if a.dtype.kind in "biu" and as_many(
        off, _steps(a, b), [(j, _steps(a, m)) for j, m in zip(jumps, moves, strict=True)]
    ):
        return Difference(excused=wrong)
    return Difference(float(wrong), 0.0, f"{wrong} of {a.size} elements differ")


def _kind(a: Array) -> object:
    """The type of the elements; strings are strings, whatever NumPy keeps them in."""
    return "string" if a.dtype.kind in "OUS" else a.dtype


def _steps(a: Array, b: Array) -> Array:
    """How far integers are apart, or bools."""
    return np.abs(a.astype(np.float64) - b.astype(np.float64))


class _Maps(NamedTuple):
    keys: list[list[Any]]
    values: Array


def _float_maps(result: Any) -> _Maps | None:
    """A map from keys to floats, or a sequence of them (ZipMap): Python floats there are float32 results."""
    maps = cast("list[Any]", result) if isinstance(result, list) else [result]
    if not maps or not all(isinstance(m, dict) for m in maps):
        return None
    numbers = [v for m in maps for v in m.values()]
    if not all(type(v) is float for v in numbers):
        return None
    return _Maps([list(m) for m in maps], np.array(numbers, np.float32))


def _values(result: Any) -> Array | None:
    maps = _float_maps(result)
    return maps.values if maps is not None else None


def _entry(index: int) -> Callable[[Any], Any]:
    """What picks an entry out of a container; None where there is none."""

    def pick(container: Any) -> Any:
        entries = _entries(container)[1] if _is_container(container) else []
        return entries[index] if index < len(entries) else None

    return pick


def _is_container(result: Any) -> bool:
    """Whether a result is a sequence, a map, an empty optional, or a sparse tensor of `onnx.reference`."""
    return result is None or isinstance(result, list | dict) or hasattr(result, "indices")


def _compare_containers(want: Any, got: Any, *, exact: bool, values: bool, noise: Noise) -> Difference:
    if type(want) is not type(got):
        return Difference(reason=f"{type(want).__name__} became {type(got).__name__}")
    (keys, wanted), (others, given) = _entries(want), _entries(got)
    if keys != others and values:
        return Difference(reason=f"{len(keys)} entries became {len(others)}, or other keys")
    found = [
        compare(a, b, exact=exact, values=values, noise=noise.part(_entry(i)))
        for i, (a, b) in enumerate(zip(wanted, given, strict=values))
    ]
    failed = next((d for d in found if d.reason), None)
    return failed or max(found, key=lambda d: d.share, default=Difference())


def _entries(container: Any) -> tuple[list[Any], list[Any]]:
    """The keys and the values of a map, a sequence, an optional that holds nothing, or the parts of a sparse tensor."""
    if container is None:
        return [], []
    if hasattr(container, "indices"):
        return ["values", "indices", "shape"], [container.values, container.indices, container.shape]
    if hasattr(container, "items"):
        return list(container.keys()), list(container.values())
    return list(range(len(container))), list(container)
