"""Decision boundaries of a model, such as constants in comparisons and clips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ..ir.expressions import as_integers
from ..ir.op import Op
from ..ir.tensor import Tensor
from ..ir.values import Value
from ..operators.declaration import Trait
from ..operators.table import data_inputs, ops_with
from .transitive_uses import MAX_FOLLOWED_VALUES, Use, transitive_uses

MAX_BOUNDARIES = 8  # boundaries of one input; more, as in tree ensembles, are subsampled
MAX_VOCABULARY = 4096  # points of one input from which numbers are chosen at random
MAX_CONSTANT_SIZE = 1024  # elements of a constant whose numbers count as boundaries
MAX_OPERANDS = 256  # of a Max or Min that are considered
THRESHOLD_OPS = ops_with(Trait.COMPARISON) | {"Max", "Min"}  # they change at the other operand
REDUCTION_OPS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "GlobalAveragePool", "GlobalMaxPool"})

VOCABULARY_PREFIXES = ("cats_", "keys_", "nodes_splits", "nodes_values", "pool_", "replaced_value", "threshold")
"""The attributes, of operators for tables and trees, with numbers or strings that inputs are compared with."""
VOCABULARY_DOMAINS = frozenset({"", "ai.onnx.ml"})
T = TypeVar("T")


class DecisionBoundaries(NamedTuple):
    """Boundaries at `points`, in order; `pooled` if a reduction of all elements is compared.

    `all_points` are the points from which `points` were selected: a vocabulary, or the thresholds of a tree ensemble.
    """

    points: tuple[float, ...] = ()
    pooled: bool = False
    all_points: tuple[float, ...] = ()

    def with_points(self, others: Iterable[float]) -> DecisionBoundaries:
        """These boundaries and further points."""
        return _boundaries([*self.all_points, *others], pooled=self.pooled)


NO_BOUNDARIES = DecisionBoundaries()


class _AffineMap(NamedTuple):
    """The value as a function of the input: `x * scale + shift`, after a reduction if `pooled`."""

    scale: float = 1.0
    shift: float = 0.0
    pooled: bool = False


def decision_boundaries(value: Value, most: int = MAX_FOLLOWED_VALUES) -> DecisionBoundaries:
    """The boundaries of an input, traced through data movement, shifts and scales."""
    found: list[float] = []
    pooled = False
    for reading, line in transitive_uses(value, _AffineMap(), _propagate, most):
        points = [(c - line.shift) / line.scale for c in _thresholds(reading)]
        pooled = pooled or (line.pooled and bool(points))
        found += points
    return _boundaries(found, pooled=pooled)


def _boundaries(points: Iterable[float], *, pooled: bool) -> DecisionBoundaries:
    """Boundaries at the distinct finite points."""
    kept = sorted({float(p) for p in points if np.isfinite(p)})
    few = evenly_spread(kept, MAX_BOUNDARIES)
    return DecisionBoundaries(tuple(few), pooled, tuple(evenly_spread(kept, MAX_VOCABULARY)))


def evenly_spread(values: list[T], count: int) -> list[T]:
    """At most `count` of the values, in order, including the first and the last."""
    if len(values) <= count:
        return values
    return [values[i * (len(values) - 1) // max(count - 1, 1)] for i in range(count)]


def vocabulary(op: Op) -> list[Any]:
    """The numbers and strings in the attributes of an operator to which it compares its input."""
    named = (value for name, value in op.attrs.items() if name.startswith(VOCABULARY_PREFIXES))
    return [x for value in named for x in _flat(value)] if op.domain in VOCABULARY_DOMAINS else []


def _flat(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return value.array.reshape(-1).tolist()
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else [value]


def _propagate(op: Op, index: int, affine: _AffineMap) -> _AffineMap | None:
    if op.domain:
        return affine if op.domain == "ai.onnx.ml" and op.type in {"FeatureVectorizer", "Imputer"} else None
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
    yield from (float(n) for n in vocabulary(op) if not isinstance(n, str | bytes))
    if op.type == "Binarizer" and "threshold" not in op.attrs:
        yield 0.0
    if op.domain:
        return
    if op.type in THRESHOLD_OPS:
        for i, other in enumerate(op.inputs[:MAX_OPERANDS]):
            yield from _constant_elements(other) if i != index else ()
    elif op.type == "Clip" and index == 0:
        yield from (b for name in ("min", "max") if isinstance(b := op.attr(name), float))
        yield from (n for other in op.inputs[1:] for n in _constant_elements(other))
    elif op.type == "GridSample" and index == 1:
        yield from _ties_of_places(op)
    elif index == 0:
        yield from _activation_thresholds(op)


def _ties_of_places(op: Op) -> Iterator[float]:
    """The numbers of a grid that are equally near to two places of the image, if the nearest one is used."""
    image = op.input(0)
    shape = None if image is None or op.attr("mode", "linear") != "nearest" else image.known_shape
    for extent in as_integers((shape or ())[2:]) or ():
        length, first = (extent - 1, 1) if op.attr("align_corners", 0) else (extent, 2)
        if 0 < length <= MAX_CONSTANT_SIZE:
            yield from ((2 * k + first) / length - 1 for k in range(extent - 1))


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
    """The distinct numbers of a small readable constant; empty for other values."""
    tensor = None if value is None else value.tensor
    if tensor is None or not tensor.is_readable or tensor.size > MAX_CONSTANT_SIZE:
        return []
    array = tensor.array
    if array.dtype.kind not in "iufV" or array.size == 0:
        return []
    return np.unique(array.astype(np.float64)).tolist()
