"""Decision boundaries of a model, such as constants in comparisons and clips, and numbers around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..errors import Declined
from ..ir.op import Op
from ..ir.traits import Trait, data_inputs, ops_with
from ..ir.values import Value
from .float_inputs import to_finite
from .integer_inputs import Range
from .transitive_uses import Use, transitive_uses

Array = np.ndarray[Any, Any]
Points = tuple[float, ...]


def floats_near_points(points: Points, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """Floats at each point, one step below and above, and 1 % to both sides, in random order."""
    at = to_finite(np.array(points), dtype)
    below, above = (np.nextafter(at, to_finite(np.full(at.shape, far), dtype)) for far in (-np.inf, np.inf))
    wide = np.abs(at.astype(np.float64)) + 1.0
    near, far = (to_finite(at.astype(np.float64) + side * wide * 0.01, dtype) for side in (-1, 1))
    return _shuffled(np.stack([at, below, above, near, far]), shape, rng)


def integers_near_points(points: Points, shape: tuple[int, ...], rng: np.random.Generator, limits: Range) -> Array:
    """Integers at each point and at distances of 1 and 5, in random order."""
    down, up = np.floor(points), np.ceil(points)
    return _clipped_integers(_shuffled(np.stack([down, up, down - 1, up + 1, down - 5, up + 5]), shape, rng), limits)


def _shuffled(table: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """The numbers of the table in random order; its first rows have priority if there is not room for all."""
    size = int(np.prod(shape))
    rows = [rng.permutation(row) for row in table]
    return rng.permutation(np.resize(np.concatenate(rows), size)).reshape(shape)


def floats_in_interval(
    points: Points, number: int, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator
) -> Array:
    """Floats that are all in one interval: below the first point, at it, between it and the next, and so on."""
    index, is_at = divmod(number % (2 * len(points) + 1), 2)
    if is_at:
        return np.full(shape, to_finite(np.array(points[index]), dtype))
    return to_finite(_interpolated(points, index, np.asarray(rng.uniform(0.1, 0.9, shape))), dtype)


def integers_in_interval(
    points: Points, number: int, shape: tuple[int, ...], rng: np.random.Generator, limits: Range
) -> Array:
    """As `floats_in_interval`, for integers."""
    index, is_at = divmod(number % (2 * len(points) + 1), 2)
    if is_at:
        return _clipped_integers(np.full(shape, points[index]), limits)
    found = _interpolated(points, index, np.asarray(rng.uniform(0.1, 0.9, shape)))
    return _clipped_integers(np.floor(found) if index == 0 else np.ceil(found), limits)


def _interpolated(points: Points, index: int, fraction: Array) -> Array:
    """Numbers between the points `index` - 1 and `index`; beyond the ends within |point| + 1."""
    if index == 0:
        return points[0] - fraction * (abs(points[0]) + 1.0)
    if index == len(points):
        return points[-1] + fraction * (abs(points[-1]) + 1.0)
    return points[index - 1] + fraction * (points[index] - points[index - 1])


def _clipped_integers(a: Array, limits: Range) -> Array:
    least, most = limits
    whole = [min(max(int(n), least), most) for n in a.reshape(-1)]
    return np.array(whole, np.uint64 if most > np.iinfo(np.int64).max else np.int64).reshape(a.shape)


MAX_BOUNDARIES = 8  # boundaries of one input; more, as in tree ensembles, are subsampled
MAX_CONSTANT_SIZE = 1024  # elements of a constant whose numbers count as boundaries
THRESHOLD_OPS = ops_with(Trait.COMPARISON) | {"Max", "Min"}  # the other operand is where they change
REDUCTION_OPS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "GlobalAveragePool", "GlobalMaxPool"})


class DecisionBoundaries(NamedTuple):
    """Boundaries at `points`, in order; `pooled` if a reduction of all elements is compared."""

    points: tuple[float, ...] = ()
    pooled: bool = False

    def with_points(self, others: Iterable[float]) -> DecisionBoundaries:
        """With further points."""
        return DecisionBoundaries(_subsampled([*self.points, *others]), self.pooled)


NO_BOUNDARIES = DecisionBoundaries()


class _AffineMap(NamedTuple):
    """The value as a function of the input: `x * scale + shift`, after a reduction if `pooled`."""

    scale: float = 1.0
    shift: float = 0.0
    pooled: bool = False


def decision_boundaries(value: Value) -> DecisionBoundaries:
    """The boundaries of an input, traced through data movement, shifts and scales."""
    found: list[float] = []
    pooled = False
    for reading, line in transitive_uses(value, _AffineMap(), _propagate):
        points = [(c - line.shift) / line.scale for c in _thresholds(reading)]
        pooled = pooled or (line.pooled and bool(points))
        found += points
    return DecisionBoundaries(_subsampled(found), pooled)


def _subsampled(points: Iterable[float]) -> tuple[float, ...]:
    """The distinct finite points, in order, at most `MAX_BOUNDARIES`, evenly subsampled."""
    kept = sorted({float(p) for p in points if np.isfinite(p)})
    if len(kept) <= MAX_BOUNDARIES:
        return tuple(kept)
    return tuple(kept[i * (len(kept) - 1) // (MAX_BOUNDARIES - 1)] for i in range(MAX_BOUNDARIES))


def _propagate(op: Op, index: int, affine: _AffineMap) -> _AffineMap | None:
    if op.domain:
        return None
    if op.type in REDUCTION_OPS:
        return affine._replace(pooled=True) if index == 0 else None
    if index in data_inputs(op.type):
        return affine
    if op.type == "Neg":
        return affine._replace(scale=-affine.scale, shift=-affine.shift)
    other = (
        _constant_elements(op.input(1 - index))
        if op.type in {"Add", "Sub", "Mul", "Div"} and len(op.inputs) == 2
        else []
    )
    return _compose(op.type, index, affine, other[0]) if len(other) == 1 else None


def _compose(op_type: str, index: int, affine: _AffineMap, c: float) -> _AffineMap | None:
    if op_type == "Add":
        return affine._replace(shift=affine.shift + c)
    if op_type == "Sub":
        return (
            affine._replace(shift=affine.shift - c)
            if index == 0
            else _AffineMap(-affine.scale, c - affine.shift, affine.pooled)
        )
    if c == 0 or (op_type == "Div" and index == 1):
        return None
    factor = c if op_type == "Mul" else 1 / c
    return _AffineMap(affine.scale * factor, affine.shift * factor, affine.pooled)


def _thresholds(use: Use) -> Iterator[float]:
    """The numbers at which the function of `use` has a step or a knee."""
    op, index = use.op, use.index
    if op.domain == "ai.onnx.ml":
        yield from op.attr("nodes_values") or ()
        yield from [op.attr("threshold", 0.0)] if op.type == "Binarizer" else []
    elif op.domain:
        return
    elif op.type in THRESHOLD_OPS:
        for i, other in enumerate(op.inputs):
            yield from _constant_elements(other) if i != index else ()
    elif op.type == "Clip" and index == 0:
        yield from (b for name in ("min", "max") if isinstance(b := op.attr(name), float))
        yield from (n for other in op.inputs[1:] for n in _constant_elements(other))
    elif index == 0:
        yield from _activation_thresholds(op)


def _activation_thresholds(op: Op) -> Iterator[float]:
    if op.type == "ThresholdedRelu":
        yield float(op.attr("alpha", 1.0))
    elif op.type == "Shrink":
        yield from (-float(op.attr("lambd", 0.5)), float(op.attr("lambd", 0.5)))
    elif op.type == "HardSwish":
        yield from (-3.0, 3.0)
    elif op.type == "HardSigmoid" and (slope := float(op.attr("alpha", 0.2))):
        offset = float(op.attr("beta", 0.5))
        yield from (-offset / slope, (1 - offset) / slope)


def _constant_elements(value: Value | None) -> list[float]:
    """The distinct numbers of a small constant; empty for other values."""
    if value is None or value.tensor is None or value.tensor.size > MAX_CONSTANT_SIZE:
        return []
    try:
        array = value.const
    except Declined:
        return []
    if array.dtype.kind not in "iufV" or array.size == 0:
        return []
    return np.unique(array.astype(np.float64)).tolist()
