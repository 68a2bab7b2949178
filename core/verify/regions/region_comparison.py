"""Comparison of changed regions, each of which computes a value that both models share from values of the original."""

from __future__ import annotations

import sys
from collections import ChainMap, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from math import prod
from typing import Any, cast

import numpy as np
import onnx
from msgspec import Struct
from msgspec.structs import replace

from ...errors import EvaluationError, ModelLoadError
from ...io.split_models import SplitModel
from ...ir.tensor import element_bits
from ...ort.backends import Arrays
from ...ort.call_monitor import call_facts
from ...support.binary_search import first_bad
from ..input_sets import InputSet
from ..kept_values import value_bytes
from ..oracle_protocol import CHANGED_REGION
from ..reference.judgement import Decision, Judgement, mentions_16_bits
from ..verdict import OutputDifference
from .bodies import BodyPair, ChangedBodies
from .region_judgement import RegionJudgement, is_close, is_identical
from .region_models import LoadedRegion, LoadRegion, RegionModel, cut_region, may_saturate, value_type
from .shared_values import RegionDifference, SharedValues
from .value_graph import ValueGraph

MAX_GROUP_BYTES = 64 << 20  # bytes of values of one group on one input set, if extents are known
MAX_GROUP_CUT_POINTS = 16  # the loading time of onnxruntime grows faster than the number of cut points
SATURATES = "onnxruntime saturates sums of two products of bytes on this processor"
MAX_HELD_BYTES = 256 << 20  # bytes of values of the first group on all input sets that are compared together


class GroupPlan(Struct, frozen=True):
    """Some cut points, and the part of the original that computes them after the parts of earlier groups.

    `computed` are the values that this part computes, for these cut points and for later groups. `taken` are values of
    earlier parts that this group reads. `released` are values of this and earlier parts that no later group reads.
    """

    cut_points: tuple[str, ...]
    computed: tuple[str, ...]
    taken: tuple[str, ...]
    released: tuple[str, ...]


def plan_groups(
    original: ValueGraph, groups: Sequence[Sequence[str]], wanted: Callable[[Sequence[str]], Sequence[str]]
) -> list[GroupPlan]:
    """Plans for groups of cut points, in topological order. Each node of the original is part of one group. O(V + E).

    `wanted` has the values of the original that are compared at cut points or read by their regions.
    """
    owner: dict[int, int] = {}
    uses: list[set[str]] = []  # by group, the values that it takes from its own or earlier parts
    for number, cut_points in enumerate(groups):
        names = wanted(cut_points)
        new = [name for name in names if original.producers[name][0] not in owner]
        made, read = original.ancestors(new, lambda name: original.producers[name][0] in owner)
        uses.append({*names, *(name for name in read if name in original.producers)})
        owner.update(dict.fromkeys(made, number))
    computed: list[dict[str, None]] = [{} for _ in groups]
    last: dict[str, int] = {}  # the last group that reads a value
    for number, names in enumerate(uses):
        last.update(dict.fromkeys(names, number))
        for name in names:
            computed[owner[original.producers[name][0]]][name] = None
    return [
        GroupPlan(
            tuple(cut_points),
            tuple(sorted(made)),
            tuple(sorted(name for name in names if name not in made)),
            tuple(sorted(name for name in names if last[name] == number)),
        )
        for number, (cut_points, made, names) in enumerate(zip(groups, computed, uses, strict=True))
    ]


def split_cut_points(
    cut_points: Sequence[str],
    sizes: Mapping[str, int],
    wanted: Callable[[Sequence[str]], Sequence[str]],
    max_bytes: int,
    max_cut_points: int,
) -> Iterator[list[str]]:
    """Cut points in groups of up to `max_cut_points` with values of up to `max_bytes`; one alone may have more."""
    group: list[str] = []
    held: dict[str, int] = {}
    for cut_point in cut_points:
        new = {n: sizes.get(n, 0) for n in wanted((cut_point,))}
        if group and (len(group) == max_cut_points or sum({**held, **new}.values()) > max_bytes):
            yield group
            group, held = [], {}
        group.append(cut_point)
        held.update(new)
    if group:
        yield group


_Known = tuple[InputSet, dict[str, Any]]
"""An input set, and the values of the original on it that later groups read, without the inputs."""


class _NotTensors(Exception):
    """Raised for values of the original that are sequences, maps or optionals, which cannot be passed to regions."""

    def __init__(self, names: set[str]) -> None:
        self.names = names


@dataclass(slots=True)
class ChangedRegions:
    """The regions of a rewritten model that differ from the original's, in sessions that `load` creates.

    On an input set the original computes the values at their boundaries, and each region of the rewritten model
    computes its value from these, so that rounding before a region has no influence on it. Regions are compared in
    groups of up to `max_cut_points` whose values have about `max_bytes`; each group is compared on all input sets
    before the next one. The original computes each value once. `known` are the shared values, if they are known.
    Sequences and optionals are inside regions. `notes` has a line for each region that could not be compared.

    With `load_rewritten`, another engine loads the regions of the rewritten model, which is the original; each op is
    then such a region.
    """

    original: ValueGraph
    rewritten: ValueGraph
    load: LoadRegion
    timeout: float | None = None
    max_bytes: int = MAX_GROUP_BYTES
    max_cut_points: int = MAX_GROUP_CUT_POINTS
    load_rewritten: LoadRegion | None = None
    known: InitVar[SharedValues | None] = None
    shared: SharedValues = field(init=False)
    mentions_16_bits: bool = field(init=False)  # whether the rewritten model may compute 16-bit floats
    may_saturate: bool = field(init=False)  # whether sums of bytes of the original may saturate on this processor
    _right: dict[int, bool] = field(default_factory=dict[int, bool], init=False)  # by input set
    _is_incomplete: bool = field(default=False, init=False)
    _notes: dict[str, None] = field(default_factory=dict[str, None], init=False)
    _gains: dict[int, bool] = field(default_factory=dict[int, bool])
    _saturations: dict[int, bool] = field(default_factory=dict[int, bool])  # whether all differences are, by input set
    _types: Mapping[str, onnx.TypeProto] = field(init=False)
    _opaque: set[str] = field(default_factory=set[str])  # values of the original that are not tensors
    _pairs: dict[str, BodyPair] = field(
        default_factory=dict[str, BodyPair]
    )  # ops with bodies, by their first cut point
    _changed_bodies: ChangedBodies | None = None
    _single: dict[tuple[str, bool], LoadedRegion | None] = field(
        default_factory=dict[tuple[str, bool], LoadedRegion | None]
    )

    def __post_init__(self, known: SharedValues | None) -> None:
        self.shared = known or self._shared_but(())
        self.mentions_16_bits = mentions_16_bits(self.rewritten.model.message)
        self.may_saturate = may_saturate(self.original.model)
        self._types = self.original.types if self.shared.cut_points else {}
        self._opaque = {n for n, t in self._types.items() if t.WhichOneof("value") not in {None, "tensor_type"}}
        if self._opaque & self.shared.names:
            self._exclude(self._opaque)
        else:
            self._pair_bodies()

    @property
    def notes(self) -> list[str]:
        """The notes so far, without duplicates."""
        return list(self._notes)

    @property
    def cut_points(self) -> tuple[str, ...]:
        """The values at which regions are compared, in the order of the original."""
        return self.shared.cut_points

    def first_difference(self, input_sets: Sequence[InputSet]) -> RegionDifference | None:
        """The first cut point at which the rewritten model is wrong on an input set; None if there is none."""
        while input_sets and self.cut_points:
            try:
                with call_facts(model=CHANGED_REGION):
                    return self._first_difference(input_sets)
            except _NotTensors as e:
                unshared = e.names - self.shared.names
                if unshared & self._opaque:  # they go from one group to another
                    self.max_bytes = self.max_cut_points = sys.maxsize
                self._opaque |= e.names
                self._exclude(e.names)
            except ModelLoadError as e:
                self.note(f"changed regions were not compared: {e}")
                break
        return None

    def leave_out_up_to(self, cut_point: str) -> None:
        """Compare no cut points up to this one, if it exists."""
        points = self.cut_points
        if cut_point in points:
            self.shared = replace(self.shared, cut_points=points[points.index(cut_point) + 1 :])

    def smallest_difference(self, output: str, input_set: InputSet) -> RegionDifference | None:
        """The difference of a small region whose ops are wrong only together; None if there is none.

        The region is the shortest one, in the order of the model, that computes the output wrongly, without the ops at
        its end after which a value is already wrong.
        """
        order = self.original.ancestors([output], lambda _: False)[0]
        values = [o for n in order for o in self.original.nodes[n].output if o in self.shared.names]

        def difference(given: int, at: str) -> RegionDifference | None:
            shared = SharedValues(frozenset((*values[:given], at)), (at,), self.shared.excluded)
            part = ChangedRegions(
                self.original, self.rewritten, self.load, self.timeout, load_rewritten=self.load_rewritten, known=shared
            )
            return part.first_difference([input_set])

        if not values or difference(0, output) is None:
            return None
        given = first_bad(0, len(values), lambda n: difference(n, output) is None) - 1
        last = first_bad(given, len(values) - 1, lambda n: n > given and difference(given, values[n]) is not None)
        return difference(given, values[min(last, len(values) - 1)])

    def saturate_less_on(self, input_set: InputSet) -> bool:
        """Whether values are finite only in the rewritten model, and only because the original saturates."""
        self.is_right_on(input_set)
        return self._right[id(input_set)] and self._gains.get(id(input_set), False)

    def saturate_on(self, input_set: InputSet) -> bool:
        """Whether values differ on an input set only where sums of bytes saturate on this processor."""
        return self._saturations.get(id(input_set), False)

    def is_right_on(self, input_set: InputSet) -> bool:
        """Whether each region was compared on an input set, and is right."""
        key = id(input_set)
        if key not in self._right:
            self._right[key] = bool(self.cut_points) and self.first_difference([input_set]) is None
        return self._right[key] and not self._is_incomplete

    def may_round(self, output: str, input_set: InputSet, *, exact: bool) -> bool:
        """Whether rounding may change an output.

        It may not if results must be `exact`, nor if the output is an index: rounding must not change which of two
        elements is the largest. Then only sums that saturate on this processor may be the reason.
        """
        node, index = self.original.producers.get(output, (None, 0))
        op_type = "" if node is None else self.original.nodes[node].op_type
        is_index = op_type in {"ArgMax", "ArgMin", "NonMaxSuppression"} or (op_type == "TopK" and index == 1)
        return not (exact or is_index) or (self.may_saturate and self.saturate_on(input_set))

    def note_gains(self, cut_point: str, input_set: InputSet, judged: Judgement) -> None:
        """Note elements that are finite only in the rewritten model."""
        if judged.saturating:
            self._add_note(
                f"{cut_point} saturates less than in the original, which over- or underflows on the way to it"
            )
        if judged.redefined:
            self._add_note(f"{cut_point} is finite where it is not in the original; there only outputs were compared")
        is_unexplained = judged.decision == Decision.UNDECIDED and not input_set.is_finite
        if judged.saturating or judged.redefined or is_unexplained:
            is_known = not judged.redefined and not is_unexplained
            self._gains[id(input_set)] = self._gains.get(id(input_set), True) and is_known

    def note_saturation(self, cut_point: str, input_set: InputSet, *, saturates: bool, is_all: bool) -> None:
        """Note whether a differing cut point saturates on this processor, and whether this `is_all` there is."""
        self._saturations[id(input_set)] = is_all and self._saturations.get(id(input_set), True)
        if saturates:
            self._add_note(f"{cut_point} was compared as ONNX defines it: {SATURATES}")

    def note(self, text: str) -> None:
        """Note what could not be compared; duplicates are ignored."""
        self._is_incomplete = True
        self._add_note(text)

    def _add_note(self, text: str) -> None:
        self._notes[text] = None

    def _shared_but(self, excluded: Collection[str]) -> SharedValues:
        if self.load_rewritten is not None:
            return SharedValues.all_of(self.original, excluded)
        return SharedValues.of(self.original, self.rewritten, excluded)

    def _exclude(self, names: set[str]) -> None:
        self.shared = self._shared_but(names | self.shared.excluded)
        self._single.clear()
        self._pair_bodies()

    def _pair_bodies(self) -> None:
        """Find the ops with bodies that compute cut points in both models and read only tensors."""
        seen = set[int]()
        self._pairs.clear()
        if self.load_rewritten is not None:  # bodies are equal
            return
        for cut_point in self.cut_points:
            pair = BodyPair.at(self.original, self.rewritten, cut_point, self._is_given_to_rewritten)
            if pair is not None and pair.before not in seen and self._opaque.isdisjoint(pair.reads):
                seen.add(pair.before)
                self._pairs[cut_point] = pair

    def _first_difference(self, input_sets: Sequence[InputSet]) -> RegionDifference | None:
        self._changed_bodies = ChangedBodies(self.load, self._difference_of_bodies, self.timeout)
        waiting = deque((i, dict[str, Any]()) for i in input_sets)
        plans = self._plans(max((i.sizes for i in input_sets), key=lambda sizes: prod(sizes.values())))
        while waiting:
            known, most = waiting, MAX_HELD_BYTES
            for plan in plans:
                if self.load_rewritten is not None:
                    self._single.clear()  # each session of another engine may hold threads
                group, before, known = _Group(self, plan), known, deque[_Known]()
                while before and most > 0:
                    input_set, values = before.popleft()
                    is_known, wrong = group.compare(input_set, values)
                    if wrong is not None:
                        return wrong
                    if is_known:
                        known.append((input_set, values))
                    most -= group.byte_count + value_bytes(input_set.feeds) if plan is plans[0] else 0
                most = MAX_HELD_BYTES
        if (wrong := self._changed_bodies.first_difference()) is None:
            return None
        op, found = wrong
        return replace(found, names=found.names | self.names(op))

    def add_bodies(self, cut_points: Sequence[str], input_set: InputSet, values: Arrays) -> None:
        """Take the inputs of bodies from values of the original, on a finite input set."""
        if not input_set.is_finite or self._changed_bodies is None:
            return
        for cut_point in cut_points:
            if (pair := self._pairs.get(cut_point)) is None:
                continue
            try:
                self._changed_bodies.add(cut_point, pair, input_set, values)
            except (EvaluationError, ModelLoadError) as e:
                self.note(f"the bodies of {cut_point} were not compared: {e}")

    def _difference_of_bodies(
        self, original: SplitModel, rewritten: SplitModel, input_sets: Sequence[InputSet]
    ) -> RegionDifference | None:
        """The first wrong cut point of two bodies."""
        graphs = ValueGraph.of(original), ValueGraph.of(rewritten)
        regions = ChangedRegions(*graphs, self.load, self.timeout)
        found = regions.first_difference(input_sets)
        self._notes.update(dict.fromkeys(regions.notes))
        return found

    def _plans(self, sizes: Mapping[str, int]) -> list[GroupPlan]:
        largest = max(sizes.values(), default=1)
        bytes_of = {name: self._byte_size(name, sizes, largest) for name in self.wanted(self.cut_points)}
        groups = list(split_cut_points(self.cut_points, bytes_of, self.wanted, self.max_bytes, self.max_cut_points))
        return plan_groups(self.original, groups, self.wanted)

    def _byte_size(self, name: str, sizes: Mapping[str, int], largest: int) -> int:
        """The expected bytes of a value; unknown extents are assumed to be the `largest` one of an input."""
        tensor = self._types.get(name, onnx.TypeProto()).tensor_type
        extents = (
            d.dim_value if d.HasField("dim_value") else sizes.get(d.dim_param, largest) for d in tensor.shape.dim
        )
        return prod(extents) * (element_bits(tensor.elem_type) if tensor.elem_type else 32) // 8

    def region(self, cut_points: Sequence[str], values: Arrays, *, of_original: bool) -> LoadedRegion:
        """The region of some cut points in either model, for values of these ranks. Raises ModelLoadError."""
        graph = self.original if of_original else self.rewritten
        is_given = self._is_given_to_original if of_original else self._is_given_to_rewritten
        return self.part(graph, cut_points, is_given, values, self.load if of_original else self.load_rewritten)

    def part(
        self,
        graph: ValueGraph,
        wanted: Sequence[str],
        is_given: Callable[[str], bool],
        values: Arrays,
        load: LoadRegion | None = None,
    ) -> LoadedRegion:
        """A part of a model, loaded. Raises ModelLoadError.

        Without extents some types are inferred wrongly, as for Attention on three dims; if a part does not
        load, ranks are omitted, too.
        """
        given = {name: value for name, value in values.items() if is_given(name)}
        types = {name: value_type(value, self._types.get(name)) for name, value in given.items()}
        try:
            return _loaded(cut_region(graph, wanted, is_given, types), load or self.load)
        except ModelLoadError:
            for t in types.values():
                t.tensor_type.ClearField("shape")
            return _loaded(cut_region(graph, wanted, is_given, types), load or self.load)

    def single(self, cut_point: str, values: Arrays, *, of_original: bool) -> LoadedRegion | None:
        """The region of one cut point alone, in either model; None if it does not load."""
        key = cut_point, of_original
        if key not in self._single:
            try:
                self._single[key] = self.region((cut_point,), values, of_original=of_original)
            except ModelLoadError as e:
                self.note(f"the region of {cut_point} was not compared: {e}")
                self._single[key] = None
        return self._single[key]

    def names(self, cut_point: str) -> frozenset[str]:
        """The names of the nodes, values and constants in the regions of a cut point."""
        found: set[str] = set()
        for graph, is_given in self._sides():
            kept, outside = graph.ancestors((cut_point,), is_given)
            found.update(n for n in outside if not is_given(n))
            found.update(name for n in kept for name in (graph.nodes[n].name, *graph.nodes[n].output) if name)
        return frozenset(found)

    def wanted(self, cut_points: Sequence[str]) -> tuple[str, ...]:
        """The values of the original that are compared or read by the regions of `cut_points`, in either model."""
        sides = [(is_given, graph.ancestors(cut_points, is_given)[1]) for graph, is_given in self._sides()]
        bodies = (name for cut_point in cut_points if cut_point in self._pairs for name in self._pairs[cut_point].reads)
        read = (name for is_given, names in sides for name in names if is_given(name))
        return tuple(dict.fromkeys((*cut_points, *read, *bodies)))

    def _sides(self) -> tuple[tuple[ValueGraph, Callable[[str], bool]], ...]:
        return (self.original, self._is_given_to_original), (self.rewritten, self._is_given_to_rewritten)

    def _is_given_to_original(self, name: str) -> bool:
        return name in self.shared.names

    def _is_given_to_rewritten(self, name: str) -> bool:
        return self.shared.is_given_to(self.rewritten, name)


@dataclass(slots=True)
class _Group:
    """Cut points that are compared together, with the parts of both models, loaded for values of some ranks."""

    regions: ChangedRegions
    plan: GroupPlan
    byte_count: int = 0  # bytes of the values on the input set that was compared last, without the inputs
    _sources: dict[tuple[int, ...], LoadedRegion] = field(default_factory=dict[tuple[int, ...], LoadedRegion])
    _results: dict[tuple[int, ...], LoadedRegion | None] = field(
        default_factory=dict[tuple[int, ...], LoadedRegion | None]
    )

    def compare(self, input_set: InputSet, known: dict[str, Any]) -> tuple[bool, RegionDifference | None]:
        """Compare on an input set; `known` has values of the original there, and is updated for later groups.

        Returns whether the original runs, and the difference at the first wrong cut point.
        """
        try:
            known.update(self._original_values(input_set.feeds, known))
        except EvaluationError as e:
            self.regions.note(f"changed regions were not compared on {input_set}: {e}")
            return False, None
        values = {name: known[name] for name in (*self.plan.taken, *self.plan.computed)}
        self.byte_count = value_bytes(values)
        for cut_point, result in self._results_at_cut_points(input_set.feeds, values):
            if (wrong := self._difference(cut_point, input_set, values, result)).reason:
                return False, RegionDifference(cut_point, input_set, wrong, self.regions.names(cut_point))
        self.regions.add_bodies(self.plan.cut_points, input_set, _joined(values, input_set.feeds))
        for name in self.plan.released:
            del known[name]
        return True, None

    def _original_values(self, feeds: Arrays, known: Arrays) -> dict[str, Any]:
        """The values that the original computes for this group. Raises EvaluationError and ModelLoadError."""
        if not self.plan.computed:
            return {}
        before = {name: known[name] for name in self.plan.taken}
        if (ranks := _ranks(before)) not in self._sources:
            part = self.regions.part(self.regions.original, self.plan.computed, before.__contains__, before)
            self._sources[ranks] = part
        found = self._sources[ranks].run(_joined(before, feeds), self.regions.timeout)
        if others := {name for name, value in found.items() if not isinstance(value, np.ndarray)}:
            raise _NotTensors(others)
        return found

    def _difference(self, cut_point: str, input_set: InputSet, values: dict[str, Any], result: Any) -> OutputDifference:
        if isinstance(result, EvaluationError):
            subject = "its new region fails: " if self.regions.load_rewritten is None else ""
            return OutputDifference(reason=f"{subject}{result}")
        expected = values[cut_point]
        is_near = is_close(expected, result)
        if is_near and self.regions.may_saturate and not is_identical(expected, result):
            self.regions.note_saturation(cut_point, input_set, saturates=False, is_all=False)
        if is_near and not self.regions.mentions_16_bits:
            return OutputDifference()
        original, rewritten = (self.regions.single(cut_point, values, of_original=side) for side in (True, False))
        if original is None or rewritten is None:
            return OutputDifference()
        judgement = RegionJudgement(
            cut_point, original, rewritten, _joined(values, input_set.feeds), self.regions.timeout, input_set.is_finite
        )
        defined = (expected, result) if is_near else judgement.as_defined(expected, result)
        saturates = defined[0] is not expected
        self.regions.note_saturation(
            cut_point, input_set, saturates=saturates, is_all=saturates and is_identical(*defined)
        )
        expected, result = defined
        is_near = is_near or is_close(expected, result)
        if not is_near:
            judged = judgement.judge(expected, result)
            self.regions.note_gains(cut_point, input_set, judged)
            if (wrong := judgement.difference(expected, result, judged)).reason:
                return wrong
        return judgement.rounded_difference(expected) if self.regions.mentions_16_bits else OutputDifference()

    def _results_at_cut_points(self, feeds: Arrays, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the results of the rewritten regions: an EvaluationError if one fails, none if incomparable."""
        with call_facts(cut_points=self.plan.cut_points):
            yield from self._rewritten_results(feeds, values)

    def _rewritten_results(self, feeds: Arrays, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        if (ranks := _ranks(values)) not in self._results:
            try:
                self._results[ranks] = self.regions.region(self.plan.cut_points, values, of_original=False)
            except ModelLoadError:
                self._results[ranks] = None
        if (region := self._results[ranks]) is not None:
            try:
                found = region.run(_joined(values, feeds), self.regions.timeout)
            except EvaluationError:
                pass  # one of them fails
            else:
                yield from ((cut_point, found[cut_point]) for cut_point in self.plan.cut_points)
                return
        for cut_point in self.plan.cut_points:
            if (result := self._single_result(cut_point, feeds, values)) is not None:
                yield cut_point, result

    def _single_result(self, cut_point: str, feeds: Arrays, values: dict[str, Any]) -> Any:
        region = self.regions.single(cut_point, values, of_original=False)
        if region is None:
            return None
        given = _joined(values, feeds)
        try:
            return region.run(given, self.regions.timeout)[cut_point]
        except EvaluationError as e:
            original = self.regions.single(cut_point, values, of_original=True)
            with suppress(EvaluationError):
                if original is not None and original.run(given, self.regions.timeout):
                    return e
            self.regions.note(f"the region of {cut_point} was not compared: {e}")
            return None


def _loaded(region: RegionModel, load: LoadRegion) -> LoadedRegion:
    return LoadedRegion(region, load(region.model) if region.outputs else None)


def _joined(values: dict[str, Any], feeds: Arrays) -> Arrays:
    """Values of a group and the inputs, of which there may be many, without a copy for each group."""
    return ChainMap(values, cast("dict[str, Any]", feeds))


def _ranks(values: Arrays) -> tuple[int, ...]:
    return tuple(np.ndim(values[name]) for name in sorted(values))
