"""Inputs beside which comparisons of a changed part give another result, found by bisection along rays of inputs.

A comparison behind arithmetic, as of a sum of squares, is seldom at its limit on numbers that are drawn. Along a ray
all floats are multiplied by one factor, or one element of an integer input is moved. The inputs are not at the limit
but some roundings from it, so that rounding alone changes no result.

An op may compare each element of a value with a list of numbers, such as the thresholds of a tree behind a scaler.
Where each of them follows from one element of an input, all of these are solved for numbers of the list at once.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from ..errors import EvaluationError
from ..ir.dtypes import INTEGER_DTYPES
from ..ort.backends import Arrays
from .input_sets import InputSet
from .input_specs import TENSOR, InputSpec
from .model_changes import ChangedPart
from .noise import float_info, is_float
from .number_generation import floats_near_constants, index_limits, integer_limits
from .regions.region_models import LoadedRegion, LoadRegion, cut_region
from .regions.value_graph import ValueGraph
from .run_budgets import WorkBudget

CROSSINGS = "crossings"
"""The kind of the input sets."""
FACTORS = (-1000.0, -100.0, -10.0, -1.0, -0.1, 0.0, 0.1, 1.0, 10.0, 100.0, 1000.0)
MOVES = tuple(sorted({0, *(sign * 4**k for k in range(13) for sign in (-1, 1))}))
DISTANCES = (2.0**8, 2.0**11, 2.0**14, 2.0**17)  # from the limit, in roundings to the type of the inputs
RUN_SECONDS = 2.0  # of one run at most
MAX_PROBES = 16  # comparisons of one model
MAX_RAYS = 8
MAX_LIMITS = 2  # of one comparison along one ray
MAX_SETS = 40  # beside the limits along one ray
SOLVING_STEPS = 3  # of the secant method

Array = np.ndarray[Any, Any]
Feeds = dict[str, Any]


class Ray(Struct, frozen=True):
    """The inputs as a function of a number, first one of `steps`; `rounding` is the relative rounding of floats."""

    at: Callable[[float], Feeds]
    steps: Sequence[float]
    rounding: float = 0.0

    def is_near(self, low: float, high: float) -> bool:
        """Whether no number between the two is worth a run."""
        return high - low <= max(abs(low), abs(high)) * 2 * self.rounding if self.rounding else high - low <= 1

    def beside(self, low: float, high: float) -> Iterator[Feeds]:
        """The inputs on both sides of a limit that lies between two near numbers."""
        for distance in DISTANCES if self.rounding else (0.0,):
            yield from (self.at(t * (1.0 + side * distance * self.rounding)) for t, side in ((low, -1), (high, 1)))


def _loaded(graph: ValueGraph, names: Sequence[str], load: LoadRegion) -> tuple[LoadedRegion, float]:
    """The region that computes values from the inputs, and its share of the nodes. Raises ModelLoadError."""
    region = cut_region(graph, names, lambda _: False, {})
    share = len(region.model.message.graph.node) / max(len(graph.nodes), 1)
    return LoadedRegion(region, load(region.model) if region.outputs else None), share


@dataclass(slots=True)
class ComparisonProbe:
    """The operands of the comparisons in a changed part, computed from the inputs by a `share` of the model's nodes."""

    operands: Sequence[tuple[str, str]]
    region: LoadedRegion
    share: float

    @classmethod
    def all_of(cls, part: ChangedPart, load: LoadRegion) -> Iterator[ComparisonProbe]:
        """The probe of a part, none if it compares nothing that depends on elements. Raises ModelLoadError."""
        graph = part.graph
        operands = [(n.input[0], n.input[1]) for n in part.comparisons()[:MAX_PROBES]]
        computed = dict.fromkeys(name for pair in operands for name in pair if name not in graph.inputs)
        if not operands:
            return
        yield cls(operands, *_loaded(graph, list(computed), load))

    @property
    def inputs(self) -> frozenset[str]:
        """The inputs of the model on which the operands depend."""
        return frozenset((*self.region.model.inputs, *(name for pair in self.operands for name in pair)))

    def sides(self, feeds: Arrays) -> list[Array]:
        """For each comparison and element, -1, 0 or 1: which operand is greater. Raises EvaluationError."""
        values = ChainMap(self.region.run(feeds, RUN_SECONDS), dict(feeds))
        pairs = ((np.asarray(values[a]), np.asarray(values[b])) for a, b in self.operands)
        return [(a > b).astype(np.int8) - (a < b).astype(np.int8) for a, b in pairs]


@dataclass(slots=True)
class ListProbe:
    """An inner value of a model that an op compares with a list of `numbers`; a `share` of the nodes computes it."""

    name: str
    numbers: Sequence[float]
    region: LoadedRegion
    share: float

    @classmethod
    def all_of(cls, part: ChangedPart, load: LoadRegion) -> Iterator[ListProbe]:
        """The probes of a part. Raises ModelLoadError."""
        graph = part.graph
        for name, numbers in part.lists().items():
            yield cls(name, numbers, *_loaded(graph, [name], load))

    def meeting(
        self, inputs: Sequence[InputSpec], start: InputSet, others: Sequence[float], rng: np.random.Generator
    ) -> InputSet:
        """Inputs at which elements of the value are beside numbers of the list, or others. Raises EvaluationError."""
        feeds = dict(start.feeds)
        base = self._value(feeds)
        for i in inputs:
            x: Array = feeds.get(i.name, np.empty(0))
            if i.name not in self.region.model.inputs or i.role.kind != "free" or x.dtype.kind not in "fi":
                continue
            at, value, step = x.astype(np.float64), base, np.ones(x.shape)
            places = np.flatnonzero(self._value({**feeds, i.name: (at + 1).astype(x.dtype)}) != base)
            if places.size != x.size:  # an element determines several elements, or none
                continue
            wanted = floats_near_constants((self.numbers, others), x.shape, np.dtype(np.float32), rng)
            for _ in range(SOLVING_STEPS):
                moved = self._value({**feeds, i.name: (at + step).astype(x.dtype)})
                slope = (moved - value).reshape(-1)[places].reshape(x.shape)
                missing = wanted - value.reshape(-1)[places].reshape(x.shape)
                with np.errstate(all="ignore"):
                    to_add = missing / slope * step
                at = at + np.where(np.isfinite(to_add), to_add, 0.0)
                at = np.round(at) if x.dtype.kind == "i" else at
                feeds[i.name] = at.astype(x.dtype)
                value = self._value(feeds)
            base = value
        return replace(start, feeds=feeds, input_kinds=frozenset())

    def _value(self, feeds: Arrays) -> Array:
        return np.asarray(self.region.run(feeds, RUN_SECONDS)[self.name]).astype(np.float64)


def rays(inputs: Sequence[InputSpec], start: InputSet, read: frozenset[str], rng: np.random.Generator) -> list[Ray]:
    """Rays through an input set: all floats that are `read` together, each alone, and elements of integers."""
    able = [i for i in inputs if i.name in read and i.type_kind == TENSOR and not i.is_size and i.default is None]
    able = [i for i in able if np.size(start.feeds[i.name]) and i.role.kind in {"free", "index"}]
    floats = [i.name for i in able if is_float(i.numpy_dtype)]
    together = [floats] if len(floats) > 1 else []
    found = [_scaling(start.feeds, names) for names in (*together, *([name] for name in floats))]
    found += [_moving(start, i, rng) for i in able if i.dtype in INTEGER_DTYPES for _ in range(2)]
    return found[:MAX_RAYS]


def _scaling(feeds: Arrays, names: Sequence[str]) -> Ray:
    def at(factor: float) -> Feeds:
        return {**feeds, **{name: (feeds[name] * factor).astype(feeds[name].dtype) for name in names}}

    dtypes = [feeds[name].dtype for name in names]
    most = 10.0 if any(d.itemsize < 4 for d in dtypes) else np.inf
    return Ray(at, [f for f in FACTORS if abs(f) <= most], max(float(float_info(d).eps) for d in dtypes))


def _moving(start: InputSet, i: InputSpec, rng: np.random.Generator) -> Ray:
    array: Array = start.feeds[i.name]
    place = int(rng.integers(array.size))
    limits = integer_limits(array.dtype)
    low, high = limits if i.role.kind == "free" else index_limits(i.role, start.sizes, limits)

    def at(move: float) -> Feeds:
        moved = array.copy()
        moved.reshape(-1)[place] = min(max(int(moved.reshape(-1)[place]) + int(move), low), high)
        return {**start.feeds, i.name: moved}

    return Ray(at, MOVES)


def crossing_sets(
    probe: ComparisonProbe, inputs: Sequence[InputSpec], start: InputSet, budget: WorkBudget, seconds: float, seed: int
) -> Iterator[InputSet]:
    """Input sets on both sides of the limits of each comparison; one run of the probe takes so many seconds of work."""
    rng = np.random.default_rng([seed, *map(ord, CROSSINGS)])
    for ray in rays(inputs, start, probe.inputs, rng):
        try:
            for feeds in islice(_beside_limits(probe, ray, budget, seconds, rng), MAX_SETS):
                yield InputSet(CROSSINGS, start.sizes, feeds)
        except EvaluationError:
            continue


def _beside_limits(
    probe: ComparisonProbe, ray: Ray, budget: WorkBudget, seconds: float, rng: np.random.Generator
) -> Iterator[Feeds]:
    def sides_at(t: float) -> list[Array]:
        budget.spent += seconds
        return probe.sides(ray.at(t))

    sides: list[list[Array]] = []
    for t in ray.steps:
        if budget.left() <= 0:
            return
        sides.append(sides_at(t))
    for n in range(len(probe.operands)):
        changes = ((k, *_changed_places(a[n], b[n])) for k, (a, b) in enumerate(pairwise(sides)))
        for k, *places in islice((c for c in changes if len(c) > 1), MAX_LIMITS):
            low, high = ray.steps[k : k + 2]
            yield from (ray.at(low), ray.at(high))
            place = int(rng.choice(places))
            start = sides[k][n].reshape(-1)[place]
            while not ray.is_near(low, high) and budget.left() > 0:
                middle = (low + high) / 2 if ray.rounding else (low + high) // 2
                is_low = sides_at(middle)[n].reshape(-1)[place] == start
                low, high = (middle, high) if is_low else (low, middle)
            yield from ray.beside(low, high)


def _changed_places(a: Array, b: Array) -> list[int]:
    """The places at which two arrays differ; none if their shapes do."""
    return np.flatnonzero(a != b).tolist() if a.shape == b.shape else []
