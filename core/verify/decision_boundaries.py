"""Decision boundaries of a model, such as constants in comparisons and clips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..ir.op import Op
from ..ir.traits import Trait, data_inputs, ops_with
from ..ir.values import Value
from .transitive_uses import Use, transitive_uses

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
    if op.type not in {"Add", "Sub", "Mul", "Div"} or len(op.inputs) != 2:
        return None
    other = _constant_elements(op.input(1 - index))
    return _compose(op.type, index, affine, other[0]) if len(other) == 1 else None


def _compose(op_type: str, index: int, affine: _AffineMap, c: float) -> _AffineMap | None:
    if op_type == "Sub" and index == 1:
        return _AffineMap(-affine.scale, c - affine.shift, affine.pooled)
    if op_type in {"Add", "Sub"}:
        return affine._replace(shift=affine.shift + (c if op_type == "Add" else -c))
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
    """The distinct numbers of a small constant that can be read; empty for other values."""
    tensor = None if value is None else value.tensor
    if tensor is None or not tensor.is_readable or tensor.size > MAX_CONSTANT_SIZE:
        return []
    array = tensor.array
    if array.dtype.kind not in "iufV" or array.size == 0:
        return []
    return np.unique(array.astype(np.float64)).tolist()
