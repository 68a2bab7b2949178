"""Comparison of changed regions: each computes a value that both models share, from values of the original."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil
from typing import Any, Self

import numpy as np
from onnx import helper

from ...errors import EvaluationError, ModelLoadError
from ...ir.tensor import Tensor
from ...ort.backends import Arrays, OnnxRuntime
from ...ort.sessions import SessionConfig
from ...serialization.proto_queries import all_nodes
from ..input_generation import InputSet
from ..noise import LARGER_ULPS, PERTURBATION_RUNS, Noise, has_floats, is_float, perturb
from ..output_comparison import (
    compare_outputs,
    distances,
    has_same_finiteness,
    min_tolerance,
    observed_noise_floor,
    to_64_bit,
    without_gains,
)
from ..referee.float64_evaluation import Float64Values, evaluate_in_float64
from ..referee.judgement import RIGHT, Decision, Judgement, judge
from ..verdict import OutputDifference
from .region_models import RegionModel, cut_region, value_type
from .sites import SharedValues
from .value_graph import ValueGraph

MAX_HELD_BYTES = 1 << 30  # bytes of values at boundaries that are held at a time
MAX_GROUPS = 64
STEPWISE_OPS = frozenset({"Loop", "Scan", "LSTM", "GRU", "RNN"})


@dataclass(frozen=True, slots=True)
class SiteDifference:
    """A site at which the rewritten model is wrong, and the names of everything in its region of either model."""

    site: str
    input_set: InputSet
    difference: OutputDifference
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Region:
    """A region that is loaded; without a session if it has only constants."""

    model: RegionModel
    session: OnnxRuntime | None

    def run(self, values: Arrays, timeout: float | None) -> dict[str, Any]:
        """The wanted values, from values of the original. Raises EvaluationError."""
        outputs, constants = self.model.outputs, {name: t.array for name, t in self.model.constants.items()}
        if self.session is None:
            return constants
        found = self.session.run(list(outputs.values()), self.feeds(values), timeout)
        return {**dict(zip(outputs, found, strict=True)), **constants}

    @classmethod
    def load(cls, model: RegionModel, config: SessionConfig) -> Self:
        """Load a region. Raises ModelLoadError."""
        return cls(model, OnnxRuntime(model.model, config) if model.outputs else None)

    def in_float64(self, site: str, values: Arrays) -> Float64Values:
        """The value of its one site in double precision. Raises EvaluationError."""
        model, constants = self.model.model, self.model.constants
        arrays = {name: t.array for name, t in (*model.tensors.items(), *constants.items())}
        return evaluate_in_float64(
            model.message, self.feeds(values), {site: self.model.outputs.get(site, site)}, arrays
        )

    @property
    def has_steps(self) -> bool:
        """Whether an op computes in steps, over which rounding accumulates."""
        return any(node.op_type in STEPWISE_OPS for node in all_nodes(self.model.model.message.graph.node))

    def feeds(self, values: Arrays) -> dict[str, Any]:
        """The inputs among `values`; a model's input may have no value, if it has a default or is optional."""
        return {name: values[name] for name in self.model.inputs if name in values}


@dataclass(slots=True)
class ChangedRegions:
    """The regions of a rewritten model that differ from those of the original, run by onnxruntime with a `config`.

    On an input set the original computes the values at their boundaries, and each region of the rewritten model its
    value from these, so that rounding before a region has no influence on it. About `max_bytes` of such values are held
    at a time. `notes` has a line for each region that could not be compared.
    """

    original: ValueGraph
    rewritten: ValueGraph
    config: SessionConfig
    timeout: float | None = None
    max_bytes: int = MAX_HELD_BYTES
    notes: list[str] = field(default_factory=list[str])
    shared: SharedValues = field(init=False)
    _gains: dict[int, bool] = field(default_factory=dict[int, bool])
    _dims: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])  # as inferred, numbers where known
    _single: dict[tuple[str, bool], _Region | None] = field(default_factory=dict[tuple[str, bool], _Region | None])

    def __post_init__(self) -> None:
        self.shared = SharedValues.of(self.original, self.rewritten)

    @property
    def sites(self) -> tuple[str, ...]:
        """The values at which regions are compared, in the order of the original."""
        return self.shared.sites

    def first_difference(self, input_sets: Sequence[InputSet]) -> SiteDifference | None:
        """The first site at which the rewritten model is wrong on an input set; None if there is none."""
        if not input_sets or not self.sites:
            return None
        try:
            source = self._tensor_source()
            groups = self._groups(source, input_sets)
            for sites in groups:
                group = _Group(self, sites, source if len(groups) == 1 else self._source(self._wanted(sites)))
                for input_set in input_sets:
                    if (found := group.difference(input_set)) is not None:
                        return found
        except ModelLoadError as e:
            self.note(f"changed regions were not compared: {e}")
        return None

    def saturate_less_on(self, input_set: InputSet) -> bool:
        """Whether values are finite in the rewritten model alone, and only because the original saturates there."""
        return self.first_difference([input_set]) is None and self._gains.get(id(input_set), False)

    def note_gains(self, site: str, input_set: InputSet, judged: Judgement) -> None:
        """Note elements that are finite in the rewritten model alone."""
        if judged.saturating:
            self.note(f"{site} saturates less than in the original, which over- or underflows on the way to it")
        if judged.redefined:
            self.note(f"{site} is finite where it is not in the original; there only outputs were compared")
        if judged.saturating or judged.redefined:
            self._gains[id(input_set)] = self._gains.get(id(input_set), True) and not judged.redefined

    def note(self, text: str) -> None:
        """Note what could not be compared, once."""
        if text not in self.notes:
            self.notes.append(text)

    def region(self, sites: Sequence[str], values: Arrays, *, of_original: bool) -> _Region:
        """The region of some sites in either model, for values of these ranks. Raises ModelLoadError.

        Without extents some types are inferred wrongly, such as that of Attention on three dims; then ranks are not
        stated either.
        """
        graph = self.original if of_original else self.rewritten
        is_given = self._is_given_to_original if of_original else self._is_given_to_rewritten
        given = {name: value for name, value in values.items() if is_given(name)}
        types = {name: value_type(value, self._dims.get(name, ())) for name, value in given.items()}
        try:
            return _Region.load(cut_region(graph, sites, is_given, types), self.config)
        except ModelLoadError:
            types = {name: value_type(value, None) for name, value in given.items()}
            return _Region.load(cut_region(graph, sites, is_given, types), self.config)

    def single(self, site: str, values: Arrays, *, of_original: bool) -> _Region | None:
        """The region of one site alone, in either model; None if it does not load."""
        key = site, of_original
        if key not in self._single:
            try:
                self._single[key] = self.region((site,), values, of_original=of_original)
            except ModelLoadError as e:
                self.note(f"the region of {site} was not compared: {e}")
                self._single[key] = None
        return self._single[key]

    def names(self, site: str) -> frozenset[str]:
        """The names of the nodes, values and constants in the regions of a site."""
        found: set[str] = set()
        for graph, is_given in self._sides():
            kept, outside = graph.ancestors((site,), is_given)
            found.update(n for n in outside if not is_given(n))
            found.update(name for n in kept for name in (graph.nodes[n].name, *graph.nodes[n].output) if name)
        return frozenset(found)

    def _tensor_source(self) -> _Region:
        """The part of the original that gives the values at all sites and boundaries, once these are all tensors.

        Sequences and optionals are parts of regions, as they are not always exchanged with Python.
        """
        excluded: set[str] = set()
        while True:
            source = self._source(self._wanted(self.sites))
            types = source.session.output_types() if source.session is not None else {}
            others = {name for name, (kind, _) in types.items() if not kind.startswith("tensor(")}
            if not others:
                self._dims = {name: dims for name, (_, dims) in types.items()}
                return source
            excluded |= others
            self.shared = SharedValues.of(self.original, self.rewritten, excluded)

    def _source(self, wanted: Sequence[str]) -> _Region:
        model = cut_region(self.original, wanted, lambda _: False, {})
        return _Region.load(model, self.config)

    def _groups(self, source: _Region, input_sets: Sequence[InputSet]) -> list[tuple[str, ...]]:
        """The sites in groups whose values fit into memory, by the sizes of values on the smallest inputs."""
        counts = [_element_count(i) for i in input_sets]
        smallest = input_sets[counts.index(min(counts))]
        try:
            sizes = {name: value.nbytes for name, value in source.run(smallest.feeds, self.timeout).items()}
        except EvaluationError:
            return [self.sites]
        growth = max(counts) / max(1, min(counts))
        count = min(ceil(sum(sizes.values()) * growth / self.max_bytes), len(self.sites), MAX_GROUPS)
        if count < 2:
            return [self.sites]
        ends = list(accumulate(1 + sum(sizes[n] for n in self._wanted((site,))) for site in self.sites))
        groups: dict[int, list[str]] = {}
        for site, end in zip(self.sites, ends, strict=True):
            groups.setdefault((end - 1) * count // ends[-1], []).append(site)
        return [tuple(g) for g in groups.values()]

    def _wanted(self, sites: Sequence[str]) -> tuple[str, ...]:
        """The values of the original that are compared or read by the regions of `sites`, in either model."""
        sides = [(is_given, graph.ancestors(sites, is_given)[1]) for graph, is_given in self._sides()]
        return tuple(dict.fromkeys((*sites, *(name for is_given, read in sides for name in read if is_given(name)))))

    def _sides(self) -> tuple[tuple[ValueGraph, Callable[[str], bool]], ...]:
        return (self.original, self._is_given_to_original), (self.rewritten, self._is_given_to_rewritten)

    def _is_given_to_original(self, name: str) -> bool:
        return name in self.shared.names

    def _is_given_to_rewritten(self, name: str) -> bool:
        """Whether a region reads a value of the original: kernels may require that shapes and the like are constant."""
        constant = self.rewritten.constants.get(name)
        is_exact = isinstance(constant, Tensor) and not is_float(helper.tensor_dtype_to_np_dtype(constant.dtype))
        return name in self.shared.names and not is_exact


@dataclass(slots=True)
class _Group:
    """Sites that are compared together, and the part of the original that gives values there and at boundaries."""

    regions: ChangedRegions
    sites: tuple[str, ...]
    source: _Region
    _loaded: dict[tuple[int, ...], _Region | None] = field(default_factory=dict[tuple[int, ...], _Region | None])

    def difference(self, input_set: InputSet) -> SiteDifference | None:
        """The first site of the group at which the rewritten model is wrong."""
        try:
            found = self.source.run(input_set.feeds, self.regions.timeout)
        except EvaluationError as e:
            self.regions.note(f"changed regions were not compared on {input_set}: {e}")
            return None
        values = {**input_set.feeds, **found}
        results = self._results(values)
        for site in self.sites:
            if (result := results.get(site)) is None:
                continue
            if isinstance(result, EvaluationError):
                wrong = OutputDifference(reason=f"its new region fails: {result}")
            else:
                judged = RIGHT if is_close(values[site], result) else self._judge(site, values, result)
                self.regions.note_gains(site, input_set, judged)
                wrong = self._difference(site, values, result, judged)
            if wrong.reason:
                return SiteDifference(site, input_set, wrong, self.regions.names(site))
        return None

    def _results(self, values: Arrays) -> dict[str, Any]:
        """What the rewritten regions compute: an EvaluationError for one that fails, nothing for one not comparable."""
        ranks = tuple(np.ndim(values[name]) for name in self.source.model.outputs)
        if ranks not in self._loaded:
            try:
                self._loaded[ranks] = self.regions.region(self.sites, values, of_original=False)
            except ModelLoadError:
                self._loaded[ranks] = None
        if (region := self._loaded[ranks]) is not None:
            try:
                return region.run(values, self.regions.timeout)
            except EvaluationError:
                pass  # one of them fails
        return {site: found for site in self.sites if (found := self._single_result(site, values)) is not None}

    def _single_result(self, site: str, values: Arrays) -> Any:
        region = self.regions.single(site, values, of_original=False)
        if region is None:
            return None
        try:
            return region.run(values, self.regions.timeout)[site]
        except EvaluationError as e:
            original = self.regions.single(site, values, of_original=True)
            try:
                return e if original is not None and original.run(values, self.regions.timeout) else None
            except EvaluationError:
                return None

    def _judge(self, site: str, values: Arrays, result: Any) -> Judgement:
        """The judgement of a difference at a site by float64. Right if a region does not load alone."""
        original, rewritten = (self.regions.single(site, values, of_original=side) for side in (True, False))
        if original is None or rewritten is None:
            return RIGHT
        try:
            truth, new_truth = (region.in_float64(site, values) for region in (original, rewritten))
            noise = self._accumulated_noise(original, site, values)
            return judge(site, values[site], result, truth, new_truth, noise)
        except EvaluationError:
            return Judgement(Decision.UNDECIDED)

    def _difference(self, site: str, values: Arrays, result: Any, judged: Judgement) -> OutputDifference:
        """The difference at a site that was judged, by the noise of the original's region where float64 says nothing.

        That leaves elements that are finite in the rewritten region alone to the outputs: -10000 may serve for -inf.
        """
        if judged.decision == Decision.RIGHT:
            return OutputDifference()
        a, b = np.asarray(values[site]), np.asarray(result)
        is_measured = a.dtype == b.dtype and a.shape == b.shape and is_float(a.dtype)
        original = self.regions.single(site, values, of_original=True)
        if judged.decision == Decision.UNDECIDED and original is not None:
            rest = without_gains(a, b)
            return compare_outputs(
                values[site], result if rest is None else rest, exact=False, noise=self._noise(original, site, values)
            )
        error = float(distances(to_64_bit(a), to_64_bit(b)).max(initial=0.0)) if is_measured else 0.0
        return OutputDifference(error, reason=judged.reason)

    def _accumulated_noise(self, original: _Region, site: str, values: Arrays) -> float:
        """The change of a region's float value under perturbation, where rounding accumulates over steps; else 0."""
        x = np.asarray(values[site])
        if not is_float(x.dtype) or not original.has_steps:
            return 0.0
        moved = (np.asarray(m) for m in self._perturbed(original, site, values, 1))
        return observed_noise_floor(to_64_bit(x), (to_64_bit(m) for m in moved if m.shape == x.shape))

    def _noise(self, original: _Region, site: str, values: Arrays) -> Noise:
        return Noise(
            lambda: self._perturbed(original, site, values, 1),
            lambda: 0.0,
            lambda: [(m, ulps) for ulps in LARGER_ULPS for m in self._perturbed(original, site, values, ulps)],
        )

    def _perturbed(self, region: _Region, site: str, values: Arrays, ulps: int) -> list[Any]:
        """The values of a region whose float inputs move by `ulps`."""
        feeds, found = region.feeds(values), list[Any]()
        for seed in range(PERTURBATION_RUNS) if has_floats(feeds) else ():
            with suppress(EvaluationError):
                moved = perturb(feeds, seed + 1000 * (ulps - 1), ulps)
                found.append(region.run(moved, self.regions.timeout)[site])
        return found


def is_close(expected: Any, actual: Any) -> bool:
    """Whether a value differs only by the rounding of a few ops, relative to the elements that differ."""
    a, b = np.asarray(expected), np.asarray(actual)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if np.array_equal(a, b) or not is_float(a.dtype):
        return bool(np.array_equal(a, b))
    x, y = to_64_bit(a), to_64_bit(b)
    if not has_same_finiteness(x, y).all():
        return False
    far = distances(x, y)
    return float(far.max()) <= min_tolerance(a.dtype) * float(np.abs(x[far > 0]).max(initial=0.0))


def _element_count(input_set: InputSet) -> int:
    return sum(np.size(v) for v in input_set.feeds.values())
