"""Comparison of models with the outputs of the original."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import accumulate
from math import inf
from time import monotonic
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np
from msgspec import structs

from ..errors import EvaluationError, MemoryExhausted, ModelError, ModelLoadError, UnverifiableError
from ..io.convert import from_onnx
from ..io.files import split_model
from ..io.split_models import Loadable, SplitModel
from ..ir.expressions import Shape
from ..ir.op_schemas import is_foreign, qualified_op_type
from ..ir.values import declared_shape
from ..operators.element_types import Array
from ..ort.backends import LoadedModel, OnnxReference
from ..ort.call_monitor import call_facts
from ..ort.empty_tensors import CONVOLUTIONS, EMPTY_SAFE_OPS, has_nonempty_filters
from ..ort.python_kernels import BrokenKernel
from ..processes.process_limits import default_memory
from ..serialization.proto_queries import used_operators
from ..serialization.provenance import read_conditions
from .comparison_crossings import ComparisonProbe, ListProbe
from .comparison_options import USUAL, ComparisonOptions
from .input_search import InputSearch, OutOfTime
from .input_sets import InputSet, ReferenceRun, sizes_of
from .input_specs import SEQUENCE
from .kept_values import LazyValues, ValueCache
from .model_changes import NO_HINTS, ChangedPart, InputHints, ModelChanges
from .model_constants import NO_CONSTANTS, constants_of
from .noise import is_float
from .oracle_protocol import CHANGED_REGION, REWRITTEN, CrashedInputs
from .output_comparison import compare_outputs, has_same_finiteness, identical, to_64_bit, without_gains
from .reference.judgement import describe_new_overflows, differ_by_rounding, kernel_error
from .regions.region_comparison import MAX_GROUP_CUT_POINTS, SATURATES, ChangedRegions
from .regions.region_models import LoadRegion, may_saturate
from .regions.shared_values import RegionDifference, SharedValues
from .regions.value_graph import ValueGraph
from .run_budgets import TimeBudget
from .seeded_session import BACKENDS, FIRST_RUN_TIMEOUTS, Backend, SeededSession, open_original_session, open_session
from .segmented_runtime import SegmentedRuntime, SegmentLimits, load_by_size, segment_memory, takes_quadratic_time
from .sensitivity import Outputs, Sensitivity, outputs_in_float64, outputs_of_rounded_ops
from .verdict import HALF_IN_SINGLE, Mismatch, MismatchError, OutputDifference, Verdict
from .verification_spec import VerificationSpec

MIN_SEGMENTED_SECONDS = 1.0  # of work for runs of an original in segments, after which it gets no further inputs,
MAX_SEGMENTED_RUNS = 1.5  # and this number of times the work of its first run
SEGMENTED_REGION_SETS = 2  # input sets on which the changed regions of such an original are compared
MAX_SEGMENTED_GROWTH = 4  # its inputs have at most this many times the elements of its first input set
MAX_COMBINED_CRASHES = 3  # of the original, before no further combined input sets are tried
COMPARISON_SECONDS = MappingProxyType({"quick": 60.0, "default": 1800.0, "thorough": inf})
"""The seconds of a search for inputs, and of a comparison, by effort, after which further input sets are left out."""
SEARCH_SHARE, COMPARISON_SHARE = 0.4, 0.5
"""Of the time that is left for the command, for the search and for a comparison at most."""
REGION_SECONDS = MappingProxyType({"quick": 0.08, "default": 0.12, "thorough": inf})
"""Seconds of work, by effort, for which changed regions are compared."""
REGION_GROUP_SECONDS, REGION_GROWTH = 1e-3, 6  # of work for a group on an input set, and times its larger elements
MIN_REGION_SETS = 2
LARGE_VALUES_DIVISOR = 16  # of the memory, for values of the original with which a right rewrite may need more
T = TypeVar("T")
UNMATCHED_RANDOM_OP = "comes from a random operator that the original does not have, so it cannot be verified"


@dataclass(slots=True)
class _Comparisons:
    """The input sets on which outputs were compared, and the worst differences, for finite and other inputs.

    `sizes` are by symbolic dim. `elements` has the only element so far of each output on finite inputs, unless the
    output is in `varied`. A condition of the model excuses the differences of outputs on `excused_sets`, which are
    identities of input sets; the first excuse for each output is noted.
    """

    notes: list[str]
    failure: Mismatch | None
    labels: dict[bool, list[str]] = field(default_factory=lambda: {True: list[str](), False: list[str]()})
    worst: dict[bool, dict[str, OutputDifference]] = field(
        default_factory=lambda: {True: dict[str, OutputDifference](), False: dict[str, OutputDifference]()}
    )
    sizes: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    elements: dict[str, Any] = field(default_factory=dict[str, Any])
    varied: set[str] = field(default_factory=set[str])
    excused: set[str] = field(default_factory=set[str])
    excused_sets: set[int] = field(default_factory=set[int])

    def add(self, run: ReferenceRun) -> None:
        """Add the input set of a run, and the elements of its outputs."""
        input_set = run.input_set
        if input_set.is_finite or id(input_set) not in self.excused_sets:
            self.labels[input_set.is_finite].append(str(input_set))
        for symbol, size in input_set.sizes.items():
            self.sizes.setdefault(symbol, set()).add(size)
        for name in (n for n in run.outputs if n not in self.varied) if input_set.is_finite else ():
            found = cast("np.ndarray[Any, Any]", run.outputs[name])
            is_tensor = isinstance(run.outputs[name], np.ndarray)
            if not is_tensor or (found.size and np.any(found != self.elements.setdefault(name, found.flat[0]))):
                self.varied.add(name)

    def excuse(self, name: str, input_set: InputSet, reason: str) -> None:
        """Add a difference of an output that a condition of the model excuses."""
        self.excused_sets.add(id(input_set))
        if name not in self.excused:
            self.excused.add(name)
            self.notes.append(f"{name} differs on {input_set}, which a condition of the model permits: {reason}")

    def constant_outputs(self) -> Iterator[str]:
        """Notes on outputs whose elements were all equal on several finite input sets."""
        if len(self.labels[True]) > 1:
            for name, element in self.elements.items():
                if name not in self.varied:
                    text = f"{element:g}" if isinstance(element, np.floating) else f"{element}"
                    yield f"{name} is {text} in all elements on all inputs, so little of it was compared"


class Oracle:
    """The runs of the original, and comparisons with them.

    Given input sets are used unchanged; otherwise they are generated, around `boundaries` too. If there are random
    outputs, random ops get seeds, and outputs of ops that take none are compared by type and rank only. Each run of a
    stateful model gets a session of its own. Inputs that `crashed` are left out. Outputs beyond the memory of the
    spec are computed again where they are needed. Input sets are left out to end before `deadline`, in seconds of
    `time.monotonic`, and all but the first to end before `wanted_end`. It can be pickled, without its sessions.

    Raises UnverifiableError if none of `backends` loads the original or it runs on no input set, and ModelError if it
    does not run on given inputs.
    """

    def __init__(
        self,
        original: Loadable,
        spec: VerificationSpec,
        seed: int = 0,
        boundaries: Collection[float] = (),
        backends: Sequence[Backend] = BACKENDS,
        crashed: CrashedInputs = (),
        deadline: float = inf,
        wanted_end: float = inf,
    ) -> None:
        self.spec, self._wanted_end = spec, min(deadline, wanted_end)
        self._model, self._backends, self._run_count = original, backends, 0
        self._crashed: dict[Hashable, str] = {i.content(): reason for i, reason in crashed}
        self._outputs = ValueCache[Outputs](spec.value_budget)
        self.output_names = list(dict.fromkeys(spec.outputs))
        self._nonempty_inputs = [i for i in spec.inputs if i.why_nonempty and i.type_kind != SEQUENCE]
        self.notes = list(spec.notes)
        self._segment_memory: int | None = None
        if backends is BACKENDS and not spec.random_outputs and not spec.stateful:
            self._segment_memory = segment_memory(self._split, spec.memory)
            if takes_quadratic_time(self._split.message):
                self._backends = (load_by_size, OnnxReference)
        if self._segment_memory is not None:
            self._backends = (partial(SegmentedRuntime, limits=SegmentLimits.of_memory(self._segment_memory)),)
            gigabytes = sum(t.nbytes for t in self._split.tensors.values()) / 1e9
            self.notes.append(
                f"with {gigabytes:.3g} GB of weights, models were run in segments; changed regions were compared on "
                f"at most {SEGMENTED_REGION_SETS} sets of inputs, and inputs of more than {MAX_SEGMENTED_GROWTH} times "
                "the elements of the first were left out"
            )
        self.backend = self._original.session.name
        if spec.uses_half and self.backend.startswith("onnxruntime"):
            self.notes.append(f"{HALF_IN_SINGLE}; with each op rounded, only overflows were looked for, on few inputs")
        self._costs = spec.costs if self.backend.startswith("onnxruntime") else spec.costs.in_reference()
        self._has_run, self._search_budget = False, self._budget(SEARCH_SHARE)
        first = min(FIRST_RUN_TIMEOUTS[spec.effort], COMPARISON_SECONDS[spec.effort])
        self._first_budget = TimeBudget(min(first, SEARCH_SHARE * max(0.0, deadline - monotonic())))
        self.runs: list[ReferenceRun] = []
        self._run_given()
        self._constants = NO_CONSTANTS if spec.given_inputs else constants_of(self._split)
        self._drawn_near = NO_HINTS
        self._latest: tuple[Loadable, ValueGraph, SharedValues] | None = None
        self._search = InputSearch(
            self._run,
            spec.inputs,
            spec.fixed_sizes,
            seed,
            self.notes,
            boundaries,
            self._constants,
            spec.effort,
            self._costs,
            combines=len(crashed) < MAX_COMBINED_CRASHES,
            part=spec.combined_part,
        )
        if not spec.given_inputs:
            self._take_runs(self._search.runs())
        self._note_empty_outputs()
        self._require_repeatable()

    def _run_given(self) -> None:
        """Run the original on as many given inputs as there is time for. Raises ModelError if it does not run."""
        given = self.spec.given_inputs
        for n, input_set in enumerate(given):
            if n and self._search_budget.left() <= 0:
                seconds = round(self._search_budget.seconds, 1)
                left_out = f"{len(given) - n} of {len(given)} samples were skipped: runs took {seconds:g} s"
                self.notes.append(left_out)
                return
            try:
                with call_facts(place=(n + 1, len(given))):
                    self.runs.append(ReferenceRun(input_set, self._run(input_set)))
            except EvaluationError as e:
                raise ModelError(f"the original does not run on the {input_set}: {e}") from e

    def __getstate__(self) -> dict[str, Any]:
        """All attributes except sessions, which are opened again, and what is computed with them."""
        computed = {name for name, member in vars(type(self)).items() if isinstance(member, cached_property)}
        return {name: value for name, value in vars(self).items() if name not in computed} | {"_latest": None}

    def _budget(self, share: float) -> TimeBudget:
        """The time for a search or a comparison, by effort, and at most a share of what is left."""
        return TimeBudget(min(COMPARISON_SECONDS[self.spec.effort], share * max(0.0, self._wanted_end - monotonic())))

    @cached_property
    def _original(self) -> SeededSession:
        """The original, loaded. Raises UnverifiableError."""
        spec = self.spec
        session = open_original_session(
            self._model, random=bool(spec.random_outputs), fresh_sessions=spec.stateful, backends=self._backends
        )
        return replace(session, timeout=FIRST_RUN_TIMEOUTS[spec.effort])

    @cached_property
    def _sensitivity(self) -> Sensitivity:
        budget = self.spec.value_budget
        return Sensitivity(lambda: self._split, self._original, self.output_names, self.runs[0], budget)

    def _take_runs(self, runs: Iterator[ReferenceRun]) -> None:
        """Use all runs; for a model in segments, only those that end before its runs have taken too long."""
        spent, most = 0.0, 0.0
        for run in self._in_time(runs):
            self.runs.append(run)
            spent += self._costs.loading + self._costs.seconds(run.input_set.sizes)
            most = most or max(MIN_SEGMENTED_SECONDS, MAX_SEGMENTED_RUNS * spent)
            if self._segment_memory is not None and spent > most:
                self.notes.append("further inputs were skipped: runs of the original take too long")
                return
        if not self.runs:
            limit = self._first_budget.seconds
            raise UnverifiableError(f"the original did not end within {round(limit, 1):g} s on any of the inputs tried")

    def _in_time(self, runs: Iterator[ReferenceRun]) -> Iterator[ReferenceRun]:
        """Yield the runs until no time is left, which is noted."""
        try:
            yield from runs
        except OutOfTime:
            limit = round(self._search_budget.seconds, 1)
            self.notes.append(f"further inputs were skipped: runs of the original took {limit:g} s")

    def check(self, model: Loadable, options: ComparisonOptions = USUAL) -> Verdict:
        """Compare `model` with the original like `compare`. Raises VerificationError for a difference."""
        verdict = self.compare(model, options)
        if verdict.failure is not None:
            raise MismatchError(verdict.failure)
        return verdict

    def leave_out(self, input_set: InputSet, reason: str) -> None:
        """Skip an input set from now on, for a reason. Raises UnverifiableError if it is the only one."""
        self.notes.append(f"{reason} on {input_set}, which were skipped")
        self._crashed[input_set.content()] = reason
        self.runs = [r for r in self.runs if r.input_set is not input_set]
        if not self.runs:
            raise UnverifiableError(f"no inputs are left: {reason} on {input_set}")

    def compare(
        self, model: Loadable, options: ComparisonOptions = USUAL, *, backend: Backend | None = None
    ) -> Verdict:
        """Compare `model` with the original up to the first input set on which it fails, starting with finite ones.

        `backend` runs `model` instead of the backend of the original. As it has its own process, which may crash, sizes
        of 0 are tried for all operators. If regions are compared, each op of `model` is a region there.
        """
        original, spec = self._original, self.spec
        count, notes = 0, list(self.notes)
        find_regions = cache(partial(self._changed_regions, model, backend))
        if options.compare_regions and self._segment_memory is not None:  # regions first, as outputs need all weights
            verdict = self._verdict_on_regions(find_regions, self._runs_on(options.input_sets), exact=options.exact)
            chosen_sets = options.input_sets
            was_shown_there = chosen_sets is not None and all(id(s) in self._shown_by_regions for s in chosen_sets)
            if verdict.failure is not None or was_shown_there:
                return verdict
            count, notes = verdict.changed_regions, list(verdict.notes)
        open_one = partial(open_session, random=bool(spec.random_outputs), seeds=original.seeds)
        try:
            with call_facts(model=REWRITTEN):
                derived = open_one(model, backend or original.backend, fresh_sessions=spec.stateful)
        except EvaluationError as e:
            return Verdict(self.backend, options.exact, (), {}, (), tuple(self.notes), Mismatch("", str(e), None, None))
        derived.timeout = original.timeout
        if options.input_sets is None and self._segment_memory is None:
            self.add_runs_near(model, finds_limits=options.finds_limits)
        chosen = self._runs_on(options.input_sets)
        is_avoided = (backend is None or options.avoids_empty) and not spec.given_inputs
        if is_avoided and any(map(_has_zero_size, chosen)) and not serialized_supports_empty_tensors(model):
            chosen = [r for r in chosen if not _has_zero_size(r) or r is self.runs[0]]
            notes.append(
                "sizes of 0 were not tried, as onnxruntime may fail or crash on them with the operators of the result"
            )
        loose = original.unseeded_outputs.intersection(spec.random_outputs)
        unseeded = tuple(n for n in self.output_names if n in loose)
        only_derived = derived.unseeded_outputs - original.unseeded_outputs
        unmatched = [n for n in self.output_names if n in only_derived]
        failure = Mismatch(unmatched[0], UNMATCHED_RANDOM_OP, self.runs[0].input_set, None) if unmatched else None
        explains = options.explain_by_regions and (backend is None or options.compare_regions)
        regions = find_regions if explains else lambda: None
        truths = ValueCache[Outputs](spec.value_budget / 2)
        tried = _Comparisons(notes, failure=failure)
        conditions = cache(partial(self._conditions, model))
        compare_on = partial(
            self._compare_on,
            tried=tried,
            session=derived,
            conditions=conditions,
            regions=regions,
            truth=lambda run: truths.get(
                run, lambda: outputs_in_float64(split_model(model), self.output_names, run.input_set.feeds)
            ),
            unseeded=unseeded,
            options=options,
        )
        self._compare_in_time(chosen, compare_on, tried)
        failure = tried.failure
        if failure is None and spec.uses_half and not options.compare_regions and self._segment_memory is None:
            failure = self._overflow_of_rounded_ops(model, chosen)
        del derived, compare_on  # free its memory
        is_comparable = backend is None if failure is None else failure.difference is not None
        if options.compare_regions and self._segment_memory is None and is_comparable:
            shown_by = None if failure is None else failure.input_set
            sets = [r.input_set for r in chosen if shown_by is None or r.input_set is shown_by]
            sets = sets if backend is not None else self._affordable(model, list(filter(_is_usual, sets)), notes)
            failure, count = self._compare_regions(regions, sets, failure, notes)
        finite, nonfinite = (tuple(tried.labels[is_finite]) for is_finite in (True, False))
        noted, worst = tuple(dict.fromkeys((*notes, *tried.constant_outputs()))), tried.worst
        sizes = {symbol: sorted(found) for symbol, found in tried.sizes.items()}
        if failure is not None and failure.input_set is not None:
            failure = structs.replace(failure, magnitude=failure.input_set.magnitude)
        return Verdict(
            self.backend, options.exact, finite, worst[True], unseeded, noted, failure, nonfinite, worst[False], count,
            sizes, len(tried.excused_sets), conditions() if tried.excused else (),
        )  # fmt: skip

    def _compare_in_time(
        self, chosen: Sequence[ReferenceRun], compare_on: Callable[[ReferenceRun], Mismatch | None], tried: _Comparisons
    ) -> None:
        """Compare on the input sets of the runs, starting with finite ones, until a failure or the end of the time.

        Raises UnverifiableError if there is too little memory for each of them.
        """
        budget = self._budget(COMPARISON_SHARE)
        for n, run in enumerate(sorted(chosen, key=lambda r: not r.input_set.is_finite)):
            if tried.failure is not None:
                return
            if n and budget.left() <= 0:
                left_out = f"{len(chosen) - n} of {len(chosen)} input sets were skipped"
                tried.notes.append(f"{left_out} after {round(budget.seconds, 1):g} s")
                return
            input_set = run.input_set
            try:
                with call_facts(input_set=input_set, place=(n + 1, len(chosen))):
                    tried.failure = compare_on(run)
            except MemoryExhausted as e:
                tried.notes.append(f"{e} for the values of both models on {input_set}, which were skipped")
            else:
                tried.add(run)
        if chosen and not any(tried.labels.values()):
            raise UnverifiableError(tried.notes[-1])

    def _conditions(self, model: Loadable) -> tuple[str, ...]:
        """The conditions that a model states and the original does not."""
        own = read_conditions(self._split.message)
        return tuple(c for c in read_conditions(split_model(model).message) if c not in own)

    def _changed_regions(self, model: Loadable, backend: Backend | None = None) -> ChangedRegions | None:
        """The changed regions; None if they cannot be determined, or if outputs are random or depend on earlier runs.

        With a `backend`, each op of `model` there is a region.
        """
        session = self._original.session
        is_local = isinstance(session, LoadedModel | SegmentedRuntime)
        if not is_local or self.spec.random_outputs or self.spec.stateful:
            return None
        load = partial(LoadedModel, config=session.config) if self._backends is BACKENDS else self._original.backend
        if backend is not None:
            values = ValueGraph.of(split_model(model))
            return ChangedRegions(values, values, load, self._original.timeout, load_rewritten=backend)
        rewritten, shared = self._compared_values(model)
        return ChangedRegions(self._original_values, rewritten, load, self._original.timeout, known=shared)

    def _affordable(self, model: Loadable, input_sets: list[InputSet], notes: list[str]) -> Sequence[InputSet]:
        """As many input sets for comparing regions as the work allows; the first set of each kind comes first."""
        cut_points = len(self._compared_values(model)[1].cut_points)
        by_turn = _by_turn(input_sets)
        seconds = (self._costs.seconds(sizes_of(i, self.spec.inputs)) for i in by_turn)
        fixed = REGION_GROUP_SECONDS * -(-cut_points // MAX_GROUP_CUT_POINTS) + 2 * self._costs.fixed
        spent = accumulate(fixed + REGION_GROWTH * (s - self._costs.fixed) for s in seconds)
        count = sum(total <= REGION_SECONDS[self.spec.effort] for total in spent)
        kept = by_turn[: max(count, MIN_REGION_SETS)]
        if self.spec.max_region_sets is not None:
            return kept[: self.spec.max_region_sets]
        if len(kept) < len(by_turn):
            compared = f"changed regions were compared on {len(kept)} of {len(by_turn)} input sets"
            notes.append(f"{compared}: runs take too long")
        return kept

    def _runs_on(self, input_sets: Collection[InputSet] | None) -> list[ReferenceRun]:
        """The runs on these input sets, or all runs."""
        return [r for r in self.runs if input_sets is None or any(r.input_set is d for d in input_sets)]

    def first_wrong_op(
        self, backend: Backend, input_sets: Collection[InputSet], after: str, most: int
    ) -> tuple[RegionDifference | None, list[str]]:
        """The first wrong op after the producer of `after`, in another backend on the original's values; and notes.

        At most `most` ops are loaded together.
        """
        changed = self._changed_regions(self._model, backend)
        usual = [s for s in input_sets if _is_usual(s)]
        if changed is None or not usual:
            return None, ["ops were not compared: outputs are random, depend on earlier runs, or no input is finite"]
        changed.max_cut_points = most
        changed.leave_out_up_to(after)
        return changed.first_difference(usual), changed.notes

    def _verdict_on_regions(
        self, regions: Callable[[], ChangedRegions | None], runs: Sequence[ReferenceRun], *, exact: bool
    ) -> Verdict:
        """The verdict on the changed regions alone."""
        notes = list(self.notes)
        input_sets = list(filter(_is_usual, (r.input_set for r in runs)))[:SEGMENTED_REGION_SETS]
        failure, count = self._compare_regions(regions, input_sets, None, notes)
        if failure is not None:
            self._shown_by_regions.add(id(failure.input_set))
        labels = tuple(map(str, input_sets))
        return Verdict(self.backend, exact, labels, {}, (), tuple(notes), failure, changed_regions=count)

    def _compare_regions(
        self,
        regions: Callable[[], ChangedRegions | None],
        input_sets: Sequence[InputSet],
        failure: Mismatch | None,
        notes: list[str],
    ) -> tuple[Mismatch | None, int]:
        """The `failure` with its cut point, or a wrong cut point alone; and the number of regions that were compared.

        Only on finite inputs without a size of 0, where no output depends on a random op or on earlier runs.
        """
        usual = list(filter(_is_usual, input_sets))
        changed = regions() if usual else None
        if changed is None:
            return failure, 0
        found = changed.first_difference(usual)
        if found is None and failure is not None and changed.load_rewritten is not None:
            found = changed.smallest_difference(failure.output, usual[0])
        notes.extend(changed.notes)
        if found is None:
            return failure, len(changed.cut_points)
        reason = f"{found.difference.reason}, from the original's values before it"
        mismatch = failure or Mismatch(found.cut_point, reason, found.input_set, found.difference)
        return structs.replace(mismatch, cut_point=found.cut_point, region=found.names), len(changed.cut_points)

    @cached_property
    def _shown_by_regions(self) -> set[int]:
        """The identities of input sets on which a region was wrong."""
        return set()

    @cached_property
    def _split(self) -> SplitModel:
        return split_model(self._model)

    @cached_property
    def _original_values(self) -> ValueGraph:
        return ValueGraph.of(self._split)

    def add_runs_near(self, model: Loadable, *, finds_limits: bool = True) -> None:
        """Add runs on which `model` may differ: at other extents, near constants that no earlier model has."""
        if self.spec.given_inputs:
            return
        changes = ModelChanges.of(self._original_values, *self._compared_values(model))
        others = InputHints(constants_of(model).without(self._constants))
        new = changes.hints().with_others(others).without(self._drawn_near)
        if new == NO_HINTS:
            return
        self._drawn_near = self._drawn_near.with_others(new)
        self._search_budget = self._budget(SEARCH_SHARE)
        self.runs += self._in_time(self._search.runs_near(new))
        if self.spec.random_outputs or self.spec.stateful or not finds_limits:
            return
        parts, load = (changes.before, changes.after), self._original.backend
        with call_facts(model=CHANGED_REGION):
            if new.comparisons:
                probes, start = _loaded(ComparisonProbe.all_of, parts, load), self.runs[0].input_set
                self.runs += self._in_time(self._search.runs_beside_limits(probes, start))
            if new.vocabularies:
                lists = _loaded(ListProbe.all_of, parts, load)
                self.runs += self._in_time(self._search.runs_at_lists(lists, new.constants.numbers))

    def _compared_values(self, model: Loadable) -> tuple[ValueGraph, SharedValues]:
        """The values of a rewritten model, and those that it shares with the original."""
        if self._latest is None or self._latest[0] is not model:
            rewritten = ValueGraph.of(split_model(model))
            self._latest = model, rewritten, SharedValues.of(self._original_values, rewritten)
        return self._latest[1:]

    def _compare_on(
        self,
        run: ReferenceRun,
        *,
        tried: _Comparisons,
        session: SeededSession,
        conditions: Callable[[], Sequence[str]],
        regions: Callable[[], ChangedRegions | None],
        truth: Callable[[ReferenceRun], Outputs],
        unseeded: Collection[str],
        options: ComparisonOptions,
    ) -> Mismatch | None:
        """Compare the outputs of `session` with a run of the original, and update the differences and notes so far.

        Elements may be finite where they are not in the original if that is because changed regions saturate less.
        `truth` returns the outputs of the model in float64. `conditions` of the model excuse numbers that are not
        finite, except on given inputs.
        """
        input_set, exact, notes = run.input_set, options.exact, tried.notes
        worst = tried.worst[input_set.is_finite]
        results = self._results(session, run)
        if isinstance(results, Mismatch):
            return results
        for name, given in zip(self.output_names, results, strict=True):
            got, has_values = given, name not in unseeded
            same = identical(run.outputs[name], got, exact=exact) if has_values else None
            if same is not None:  # as most are, where there are many
                worst[name] = worst[name].worse(same) if name in worst else same
                continue
            noise = self._sensitivity.noise(run, name)
            compare = partial(compare_outputs, run.outputs[name], exact=exact, compare_values=has_values, noise=noise)
            found = compare(got)
            if found.reason and not input_set.is_given and conditions():
                permitted, reason = self._permitted(run, name, given), found.reason
                if permitted is not given:
                    got, found = permitted, compare(permitted)
                    tried.excuse(name, input_set, reason)
            rest = without_gains(run.outputs[name], got) if found.reason and not _has_zero_size(run) else None
            others = found if rest is None else compare(rest)
            is_gain = bool(found.reason) and not others.reason
            may_round = bool(found.reason) and options.may_round and not _has_zero_size(run)
            may_round = may_round and (not exact or may_saturate(self._split))
            is_explainable = may_round or rest is not None
            changed = regions() if is_explainable else None
            if rest is not None and changed is not None and changed.saturate_less_on(input_set):
                notes.append(f"{name} is finite where it is not in the original, which saturates")
                got, found = rest, others
            is_judged = may_round and changed is not None and bool(found.reason)
            if changed is not None and is_judged and self._only_rounds(changed, run, name, got, truth, exact=exact):
                is_engine = changed.load_rewritten is not None
                why = "each op is right on these values" if is_engine else "float64 gives the same in both"
                by_rounding = f"{name} on {input_set}: {found.reason}, due to rounding: {why}"
                notes.append(f"{name} differs: {SATURATES}" if changed.saturate_on(input_set) else by_rounding)
                found = structs.replace(found, reason="", allowed=found.error)
            worst[name] = worst[name].worse(found) if name in worst else found
            if found.excused:
                notes.append(
                    f"{found.excused} elements of {name} differ on {input_set} at discontinuities of the original"
                )
            if found.reason:
                reason = found.reason + self._untrue_declaration(name, run.outputs[name])
                return Mismatch(name, reason, input_set, found, is_gain=is_gain)
        return None

    def _overflow_of_rounded_ops(self, model: Loadable, runs: Sequence[ReferenceRun]) -> Mismatch | None:
        """An output of `model` that overflows, unlike the original's, when 16-bit ops round their results.

        As many input sets are tried as the work allows; the first set of each kind comes first.
        """
        split, spent = split_model(model), 0.0
        by_set = {id(r.input_set): r for r in runs}
        for input_set in _by_turn([r.input_set for r in runs if _is_usual(r.input_set)]):
            spent += 2 * self._costs.in_reference().seconds(sizes_of(input_set, self.spec.inputs))
            if spent > REGION_SECONDS[self.spec.effort]:
                return None
            before = self._sensitivity.rounded(by_set[id(input_set)])
            after = outputs_of_rounded_ops(split, self.output_names, input_set.feeds) if before else {}
            for name in after:
                if reason := describe_new_overflows(before[name], after[name]):
                    return Mismatch(name, reason, input_set, OutputDifference(reason=reason))
        return None

    def _permitted(self, run: ReferenceRun, name: str, got: Any) -> Any:
        """An output with the expected elements wherever a condition permits other values.

        A condition permits other values on NaN and infinite inputs, and where the original is not finite.
        """
        expected = run.outputs[name]
        if not run.input_set.is_finite:
            return expected
        rest = None if _has_zero_size(run) else without_gains(expected, got)
        return got if rest is None else rest

    def _only_rounds(
        self,
        changed: ChangedRegions,
        run: ReferenceRun,
        name: str,
        got: Any,
        truth: Callable[[ReferenceRun], Outputs],
        *,
        exact: bool,
    ) -> bool:
        """Whether an output differs only by rounding: all changed regions are right, and it is the same in float64."""
        input_set = run.input_set
        if not changed.is_right_on(input_set) or not changed.may_round(name, input_set, exact=exact):
            return False
        expected = run.outputs[name]
        if not isinstance(expected, np.ndarray) or not isinstance(got, np.ndarray):
            return False
        is_alike = input_set.is_finite and _is_finite_alike(cast("Array", expected), cast("Array", got))
        if changed.load_rewritten is not None and not is_alike:
            return False  # float64 describes only one model, in which nothing else needs an explanation
        try:
            truths = self._sensitivity.truth(run)[name], truth(run)[name]
            rounds_on_purpose = self._sensitivity.is_typically_far_from_float64(name)
        except EvaluationError:
            return False
        values = cast("Array", expected), cast("Array", got)
        if changed.saturate_on(input_set):  # neither value is what ONNX defines
            values = tuple(np.asarray(t).astype(v.dtype) for t, v in zip(truths, values, strict=True))
        return differ_by_rounding(
            values,
            truths,
            lambda: [m[name] for m in self._sensitivity.moved_truths(run, is_bool=values[0].dtype == np.bool_)],
            lambda: (m[name] for m in self._sensitivity.recomputed(run) if name in m),
            rounds_on_purpose=rounds_on_purpose,
            least_error=kernel_error(changed.rewritten.model.message, values[0].dtype),
        )

    def _untrue_declaration(self, name: str, value: Any) -> str:
        """A text saying that a value of the original contradicts the declared shape of an output; "" if it does not."""
        shape = self._declared_shapes.get(name)
        if shape is None or not isinstance(value, np.ndarray):
            return ""
        extents = cast("tuple[int, ...]", value.shape)
        agrees = len(shape) == len(extents) and all(
            not isinstance(d, int) or d == e for d, e in zip(shape, extents, strict=True)
        )
        dims = ", ".join("?" if d is None else str(d) for d in shape)
        return "" if agrees else f"; the model declares [{dims}] and computes another shape"

    @cached_property
    def _declared_shapes(self) -> dict[str, Shape | None]:
        return {o.name: declared_shape(o.type.tensor_type) for o in self._split.message.graph.output}

    def _results(self, session: SeededSession, run: ReferenceRun) -> list[Any] | Mismatch:
        """The outputs of a rewritten model, or its failure. Raises MemoryExhausted if values are large."""
        try:
            with call_facts(model=REWRITTEN):
                return session.run(self.output_names, run.input_set.feeds)
        except EvaluationError as e:
            if isinstance(e, MemoryExhausted) and self._is_large(run):
                raise
            return Mismatch("", str(e), run.input_set, None)

    def _is_large(self, run: ReferenceRun) -> bool:
        """Whether what the original reads and writes takes a large share of the memory."""
        values = (*run.input_set.feeds.values(), *run.outputs.values())
        most = self.spec.memory or default_memory()
        return LARGE_VALUES_DIVISOR * sum(np.asarray(v).nbytes for v in values) > most

    def _run(self, input_set: InputSet, timeout: float | None = None) -> Mapping[str, Any]:
        emptied = (i for i in self._nonempty_inputs if i.is_emptied_by(input_set.feeds.get(i.name, 0)))
        if (found := next(emptied, None)) is not None:
            raise EvaluationError(f"if {found.name} is empty, {found.why_nonempty}")
        if self._segment_memory is not None and self.runs and not self.spec.given_inputs:
            most = MAX_SEGMENTED_GROWTH * _element_count(self.runs[0].input_set)
            if _element_count(input_set) > most:
                raise EvaluationError(f"a model this large is run on at most {most} elements")
        if not self.spec.given_inputs:
            left = (self._search_budget if self._has_run else self._first_budget).left()
            if left <= 0:
                raise OutOfTime
            timeout = left if timeout is None else min(left, timeout)
        if self._crashed and (reason := self._crashed.get(input_set.content())) is not None:
            if (note := f"{reason} on {input_set}, which were skipped") not in self.notes:
                self.notes.append(note)
            raise EvaluationError(reason)
        run, self._run_count = self._run_count, self._run_count + 1
        compute = partial(self._outputs_on, input_set, timeout)
        try:
            with call_facts(runs_before=run, input_set=input_set):
                self._outputs.get(run, compute)
        except MemoryExhausted as e:
            self.notes.append(f"{e} on {input_set}, which were skipped")
            raise
        except BrokenKernel as e:
            raise UnverifiableError(str(e)) from e
        self._has_run = True
        return LazyValues(partial(self._outputs.get, run, compute))

    def _outputs_on(self, input_set: InputSet, timeout: float | None) -> Outputs:
        results = self._original.run(self.output_names, input_set.feeds, timeout)
        return dict(zip(self.output_names, results, strict=True))

    def _require_repeatable(self) -> None:
        """Raise UnverifiableError if an original with operators unknown to ONNX is not repeatable."""
        foreign = {o for o in used_operators(self._split.message.graph) if is_foreign(o[0])}
        if not foreign or self.spec.random_outputs or self.spec.stateful:
            return
        run = self.runs[0]
        outputs = zip(self.output_names, self._original.run(self.output_names, run.input_set.feeds), strict=True)
        for name, value in outputs:
            if reason := compare_outputs(run.outputs[name], value, exact=False).reason:
                named = ", ".join(sorted(qualified_op_type(*o) for o in foreign))
                again = "the original gives other outputs when it is run again on the same inputs"
                raise UnverifiableError(f"{again} ({name}: {reason}): {named} has to compute the same each time")

    def _note_empty_outputs(self) -> None:
        """Note outputs that are always empty. Raises UnverifiableError if a size of 0 is the reason for all."""
        empty, finite = set(self.output_names), set[str]()
        for outputs in (dict(r.outputs) for r in self.runs):
            empty -= {n for n in empty if not _is_empty(outputs[n])}
            finite |= {n for n, value in outputs.items() if n not in finite and _is_partly_finite(value)}
            if not empty and len(finite) == len(self.output_names):
                break
        if all(map(_has_zero_size, self.runs)) and len(empty) == len(self.output_names):
            zeros = {s for r in self.runs for s, size in r.input_set.sizes.items() if size == 0}
            raise UnverifiableError(f"with {', '.join(sorted(zeros))} of 0 every output of the original is empty")
        for name in self.output_names:
            if name in empty:
                self.notes.append(f"{name} is empty on all inputs, so only its type and shape were compared")
        for name in self.output_names:
            if name not in empty and name not in finite:
                self.notes.append(f"{name} is not finite on any inputs, so only its non-finite elements were compared")


def _loaded(
    probes_of: Callable[[ChangedPart, LoadRegion], Iterator[T]], parts: Sequence[ChangedPart], load: LoadRegion
) -> Iterator[T]:
    """The probes of changed parts; a part has no more of them after one that does not load."""
    for part in parts:
        with suppress(ModelLoadError):
            yield from probes_of(part, load)


def _by_turn(input_sets: Sequence[InputSet]) -> list[InputSet]:
    """The input sets; the first set of each kind comes first."""
    seen = Counter[str]()
    ordered: list[tuple[int, InputSet]] = []
    for input_set in input_sets:
        ordered.append((seen[input_set.kind], input_set))
        seen[input_set.kind] += 1
    return [input_set for _, input_set in sorted(ordered, key=lambda pair: pair[0])]


def _is_usual(input_set: InputSet) -> bool:
    """Whether regions are compared on an input set: it is finite and has no size of 0."""
    return input_set.is_finite and 0 not in input_set.sizes.values()


def _has_zero_size(run: ReferenceRun) -> bool:
    return 0 in run.input_set.sizes.values()


def _is_empty(result: Any) -> bool:
    if isinstance(result, list | dict):
        return not result
    return isinstance(result, np.ndarray) and result.size == 0


def _is_partly_finite(result: Any) -> bool:
    """Whether a result has elements other than NaN and infinities."""
    if isinstance(result, list):
        return any(map(_is_partly_finite, cast("list[Any]", result)))
    if not isinstance(result, np.ndarray):
        return True
    array = cast("np.ndarray[Any, Any]", result)
    return array.dtype.kind not in "fcV" or bool(np.isfinite(array).any())


def _is_finite_alike(expected: Array, got: Array) -> bool:
    """Whether two arrays of floats have NaN and infinities at the same places."""
    if expected.shape != got.shape or not is_float(expected.dtype):
        return False
    return bool(has_same_finiteness(to_64_bit(expected), to_64_bit(got)).all())


def _element_count(input_set: InputSet) -> int:
    return sum(np.size(v) for v in input_set.feeds.values())


def serialized_supports_empty_tensors(model: Loadable) -> bool:
    """Whether all ops of a model are known to run on empty tensors, and no filter of its convolutions can be empty."""
    proto = split_model(model).message
    operators = used_operators(proto.graph)
    if not all(not domain and op_type in EMPTY_SAFE_OPS for domain, op_type in operators):
        return False
    try:
        return CONVOLUTIONS.isdisjoint(t for _, t in operators) or has_nonempty_filters(from_onnx(proto).graph)
    except ModelError:
        return False
