"""Comparison of one output of the original with that of a rewritten model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from .noise import NO_NOISE, Noise, is_float
from .tolerance import array_noise_floor, compare_bits, compare_floats, has_similar_jumps, max_excused
from .verdict import OutputDifference

Array = np.ndarray[Any, Any]


def compare_outputs(
    expected: Any, actual: Any, *, exact: bool, compare_values: bool = True, noise: Noise = NO_NOISE
) -> OutputDifference:
    """Compare two results: types, shapes, then values, bit for bit if `exact`. NaN equals NaN.

    Otherwise floats may differ as far as the original's `noise` allows, and single elements of any type where the
    original jumps too. Without `compare_values`, only types and ranks count, as random values may determine extents.
    """
    maps, others = _float_maps(expected), _float_maps(actual)
    if maps is not None and others is not None and maps.keys == others.keys:
        return compare_outputs(
            maps.values, others.values, exact=exact, compare_values=compare_values, noise=noise.of_part(_map_values)
        )
    if _is_container(expected) or _is_container(actual):
        return _compare_containers(expected, actual, exact=exact, compare_values=compare_values, noise=noise)
    a, b = np.asarray(expected), np.asarray(actual)
    if _dtype_key(a) != _dtype_key(b) or a.ndim != b.ndim or (compare_values and a.shape != b.shape):
        return OutputDifference(reason=f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}")
    if not compare_values or a.size == 0:
        return OutputDifference()
    if is_float(a.dtype):
        return compare_bits(a, b) if exact else compare_floats(a, b, noise)
    return _compare_discrete(a, b, NO_NOISE if exact else noise)


def relative_noise_floor(expected: Any, noise: Noise) -> float:
    """The noise floor of a result as a share of its largest magnitude, the largest over its parts."""
    maps = _float_maps(expected)
    if maps is not None:
        return array_noise_floor(maps.values, noise.of_part(_map_values))
    if _is_container(expected):
        parts = _entries(expected)[1]
        return max((relative_noise_floor(p, noise.of_part(_entry_getter(i))) for i, p in enumerate(parts)), default=0.0)
    a = np.asarray(expected)
    return array_noise_floor(a, noise) if is_float(a.dtype) else 0.0


def _compare_discrete(a: Array, b: Array, noise: Noise) -> OutputDifference:
    """Compare integers, bools or strings; differing elements are excused where the original jumps too, if few."""
    off = np.asarray(a != b)
    wrong = int(np.count_nonzero(off))
    if not wrong:
        return OutputDifference()
    moves = noise.perturbed_like(a) if noise.excuses_jumps else []
    for deeper in (False, True):
        moves += [m for m, _ in noise.more_perturbed_like(a)] if deeper else []
        jumps = [np.asarray(m != a) for m in moves]
        explained = np.logical_or.reduce([off & j for j in jumps]) if jumps else np.zeros_like(off)
        if int(np.count_nonzero(explained)) == wrong <= max_excused(a.size):
            return OutputDifference(excused=wrong)
    if a.dtype.kind in "biu" and has_similar_jumps(
        off, _integer_distances(a, b), [(j, _integer_distances(a, m)) for j, m in zip(jumps, moves, strict=True)]
    ):
        return OutputDifference(excused=wrong)
    return OutputDifference(float(wrong), 0.0, f"{wrong} of {a.size} elements differ")


def _dtype_key(a: Array) -> object:
    """The element type; all of NumPy's string types are one."""
    return "string" if a.dtype.kind in "OUS" else a.dtype


def _integer_distances(a: Array, b: Array) -> Array:
    """|a - b| of integers or bools."""
    return np.abs(a.astype(np.float64) - b.astype(np.float64))


class _FloatMaps(NamedTuple):
    keys: list[list[Any]]
    values: Array


def _float_maps(result: Any) -> _FloatMaps | None:
    """A map from keys to floats, or a sequence of them (ZipMap): Python floats there are float32 results."""
    maps = cast("list[Any]", result) if isinstance(result, list) else [result]
    if not maps or not all(isinstance(m, dict) for m in maps):
        return None
    numbers = [v for m in maps for v in m.values()]
    if not all(type(v) is float for v in numbers):
        return None
    return _FloatMaps([list(m) for m in maps], np.array(numbers, np.float32))


def _map_values(result: Any) -> Array | None:
    maps = _float_maps(result)
    return maps.values if maps is not None else None


def _entry_getter(index: int) -> Callable[[Any], Any]:
    """A function that returns an entry of a container; None where there is none."""

    def pick(container: Any) -> Any:
        entries = _entries(container)[1] if _is_container(container) else []
        return entries[index] if index < len(entries) else None

    return pick


def _is_container(result: Any) -> bool:
    """Whether a result is a sequence, a map, an empty optional, or a sparse tensor of `onnx.reference`."""
    return result is None or isinstance(result, list | dict) or hasattr(result, "indices")


def _compare_containers(
    expected: Any, actual: Any, *, exact: bool, compare_values: bool, noise: Noise
) -> OutputDifference:
    if type(expected) is not type(actual):
        return OutputDifference(reason=f"{type(expected).__name__} became {type(actual).__name__}")
    (keys, wanted), (others, given) = _entries(expected), _entries(actual)
    if keys != others and compare_values:
        return OutputDifference(reason=f"{len(keys)} entries became {len(others)}, or other keys")
    found = [
        compare_outputs(a, b, exact=exact, compare_values=compare_values, noise=noise.of_part(_entry_getter(i)))
        for i, (a, b) in enumerate(zip(wanted, given, strict=compare_values))
    ]
    failed = next((d for d in found if d.reason), None)
    return failed or max(found, key=lambda d: d.share_of_allowed, default=OutputDifference())


def _entries(container: Any) -> tuple[list[Any], list[Any]]:
    """The keys and the values of a map, a sequence, an optional that holds nothing, or the parts of a sparse tensor."""
    if container is None:
        return [], []
    if hasattr(container, "indices"):
        return ["values", "indices", "shape"], [container.values, container.indices, container.shape]
    if hasattr(container, "items"):
        return list(container.keys()), list(container.values())
    return list(range(len(container))), list(container)
