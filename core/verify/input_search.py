"""Search for input sets on which the original runs, and the reference runs on them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, combinations, islice
from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace

from ..errors import EvaluationError, UnverifiableError
from .combined_plans import InputPlan, KindRecord, combined_plans, plans_near
from .comparison_crossings import ComparisonProbe, ListProbe, crossing_sets
from .dim_expressions import Sizes
from .effort import Effort
from .input_generation import KINDS, distinct_kinds, generate_combined, generate_input_sets, variant_count
from .input_sets import InputSet, ReferenceRun
from .input_specs import GENERATABLE, InputSpec, free_symbols
from .model_changes import InputHints
from .model_constants import NO_CONSTANTS, ModelConstants
from .noise import is_float
from .number_generation import NONFINITE_VALUES
from .run_budgets import NO_COSTS, RUN_SECONDS, RunCosts, WorkBudget
from .size_assignments import (
    CHEAP_ELEMENTS,
    MAX_ELEMENTS,
    element_count,
    required_sizes,
    size_assignments,
    unusual_sizes,
    with_more,
    with_one_distinct,
    with_ones,
    with_zeros,
)

TRIED_RANKS = (0, 1, 2, 3, 4, 5)  # tried for inputs whose rank is not stated
MAX_RANK = 64  # of NumPy's arrays
ROTATING_KINDS = ("normal", "zeros", "extremes")  # kinds that are drawn at each accepted size in turn
MAX_EMPTY_RUNS = 2
MAX_GROUPS = 24  # of symbols that are made to differ from others
MIN_ASSIGNMENTS, MAX_ASSIGNED_SIZES = 8, 20_000  # assignments with a size of 1, and the sizes in all of them
# Seconds of work for combined input sets: at least the first number, or that share of loading and the first run.
WORK_BUDGETS = {"quick": (0.1, 0.1), "default": (0.25, 0.25), "thorough": (20.0, 20.0)}
ALWAYS_KINDS = ("zeros", "inf")  # of large inputs, whatever a run costs
CHEAP_RUN = 0.003  # seconds of work; a model with such runs gets all combined input sets
NEAR_PART, CHEAP_NEAR_RUN = 0.3, 0.0001  # the same for runs that may show what a rewritten model changes
LARGE_PART, LARGE_GROWTH = 0.3, 4  # of a budget, for a run at sizes that take so many times as long as usual ones
ROWS_AT_LISTS = (64, 1024, 16_384)  # inputs whose values are beside numbers of a list, as many as are affordable
COMBINED_TIMEOUT = 2.0  # seconds for one run on combined inputs


class RunModel(Protocol):
    """Runs a model on an input set, optionally for at most `timeout` seconds."""

    def __call__(self, input_set: InputSet, timeout: float | None = None) -> Mapping[str, Any]:
        """The outputs by name. Raises EvaluationError, and OutOfTime if no time is left."""
        ...


class OutOfTime(Exception):
    """No time is left for runs of the original."""


@dataclass(slots=True)
class InputSearch:
    """Searches for input sets that `run` accepts, with `fixed` sizes for some symbols; `notes` list what was not found.

    Numbers near the `boundaries` of rules are generated for every numeric input, in further sets. Combined input sets,
    up to a share of the work that `effort` determines, have numbers, sizes and words near `constants`. `costs` are
    estimates. Without `combines` there are no combined sets; `part` is the index of the first one to draw and the
    distance to the next, 0 for none.
    """

    run: RunModel
    inputs: list[InputSpec]
    fixed: Sizes
    seed: int = 0
    notes: list[str] = field(default_factory=list[str])
    boundaries: Collection[float] = ()
    constants: ModelConstants = NO_CONSTANTS
    effort: Effort = "default"
    costs: RunCosts = NO_COSTS
    combines: bool = True
    part: tuple[int, int] = (0, 1)
    accepted_sizes: list[Sizes] = field(default_factory=list[Sizes])
    refusals: dict[str, str] = field(default_factory=dict[str, str])  # errors by the symbol whose size was changed
    record: KindRecord = field(default_factory=KindRecord)

    def runs(self) -> Iterator[ReferenceRun]:
        """Yield a run for each kind of input set, at the model's usual sizes and with dims of 1 in turn.

        Raises UnverifiableError if inputs cannot be generated or the model accepts none of them, and OutOfTime.
        """
        require_generatable(self.inputs)
        first = self._first_run()
        yield first
        accepted, seen = [first.input_set.sizes], {first.input_set.content()}
        self.accepted_sizes = accepted
        for run in self._runs_at_other_sizes(accepted[0]):
            accepted.append(run.input_set.sizes)
            seen.add(run.input_set.content())
            yield run
        self._note_sizes(accepted)
        is_large = min(element_count(self.inputs, sizes) for sizes in accepted) > CHEAP_ELEMENTS
        if not is_large and all(i.may_be_empty for i in self.inputs):
            yield from self._empty_runs(accepted[0])
        kinds = distinct_kinds(self.inputs, are_large=is_large)[1:]
        for kind in kinds:
            yield from _new(self._runs_of_kind(kind, accepted), seen)
        budget = self._budget()
        if is_large:
            yield from self._runs_of_other_kinds(accepted, kinds, budget, seen)
        if self.combines:
            fixed = self._fixed_symbols()
            combined = combined_plans(self.inputs, self.accepted_sizes, self.constants, fixed, self.seed)
            yield from _new(self.combined_runs(combined, self.constants, budget), seen)
        else:
            self.notes.append("combined input sets were skipped, as runs of the original end the process")
        if self.boundaries and (not is_large or budget.left() > 0):
            yield from _new(self._runs_at_boundaries(accepted), seen)

    def _runs_at_boundaries(self, accepted: list[Sizes]) -> Iterator[ReferenceRun]:
        """Yield runs at the boundaries of rules, after all runs that do not depend on the rules."""
        near = copy(self)
        near.inputs = [replace(i, boundaries=i.boundaries.with_points(self.boundaries)) for i in self.inputs]
        if "boundaries" in distinct_kinds(near.inputs, are_large=False):
            yield from near._runs_of_kind("boundaries", accepted)  # noqa: SLF001 - of this class
        if self.combines:
            plans = combined_plans(near.inputs, accepted, self.constants, self._fixed_symbols(), self.seed)
            chosen = [p for p in plans if p.kind in {"boundaries", "constants"}]
            yield from near.combined_runs(chosen, self.constants, self._budget())

    def _runs_of_other_kinds(
        self, accepted: list[Sizes], found: Collection[str], budget: WorkBudget, seen: set[Hashable]
    ) -> Iterator[ReferenceRun]:
        """Runs of the kinds that large inputs are not given in any case, as many as `budget` allows."""
        others = [k for k in distinct_kinds(self.inputs, are_large=False)[1:] if k not in found]
        ordered = [k for k in ALWAYS_KINDS if k in others]
        ordered += [k for k in others if k not in ordered]
        for n, kind in enumerate(ordered):
            if kind not in ALWAYS_KINDS and budget.left() <= 0:
                self.notes.append(f"{', '.join(ordered[n:])} inputs were skipped: a run takes too long")
                return
            for run in _new(self._runs_of_kind(kind, accepted), seen):
                budget.spent += self.costs.seconds(run.input_set.sizes)
                yield run

    def _budget(self, part: float = 1.0) -> WorkBudget:
        """The work for combined input sets; half is for runs of the original, as a comparison takes as much again."""
        least, share = WORK_BUDGETS[self.effort]
        base = self.costs.loading + self.costs.seconds(self.accepted_sizes[0])
        return WorkBudget(part * max(least, share * base) / 2)

    def runs_near(self, hints: InputHints) -> Iterator[ReferenceRun]:
        """Yield runs that may show what a rewritten model changes. Raises OutOfTime."""
        plans = plans_near(self.inputs, self.accepted_sizes, hints, self._fixed_symbols(), self.seed)
        if self.combines:
            yield from _new(self.combined_runs(plans, hints.constants, self._budget(NEAR_PART), CHEAP_NEAR_RUN), set())

    def runs_beside_limits(self, probes: Iterable[ComparisonProbe], start: InputSet) -> Iterator[ReferenceRun]:
        """Yield runs on both sides of the limits of comparisons, along rays through an input set. Raises OutOfTime."""
        budget, seconds = self._budget(NEAR_PART), self.costs.seconds(start.sizes)
        for probe in probes if self.combines else ():
            probing = RUN_SECONDS + probe.share * (seconds - RUN_SECONDS)
            for input_set in crossing_sets(probe, self.inputs, start, budget, probing, self.seed):
                if budget.left() <= 0:
                    return
                budget.spent += seconds
                with suppress(EvaluationError):
                    yield ReferenceRun(input_set, self.run(input_set, COMBINED_TIMEOUT))

    def runs_at_lists(self, probes: Iterable[ListProbe], numbers: Sequence[float]) -> Iterator[ReferenceRun]:
        """Yield runs at which inner values are near numbers with which they are compared. Raises OutOfTime."""
        budget, base, kept = self._budget(NEAR_PART), self.accepted_sizes[0], self._fixed_symbols()
        rows = next((s for s in base if s not in kept), None)
        for probe in probes if self.combines else ():
            for count in ROWS_AT_LISTS if rows is not None else (1,):
                sizes = base if rows is None else base | {rows: count}
                seconds = self.costs.seconds(sizes)
                if 2 * seconds > budget.left() or element_count(self.inputs, sizes) > MAX_ELEMENTS:
                    break
                budget.spent += 2 * seconds
                start = generate_combined(self.inputs, "constants", {}, sizes, (self.seed, count), NO_CONSTANTS)
                with suppress(EvaluationError):
                    input_set = probe.meeting(self.inputs, start, numbers, np.random.default_rng([self.seed, count]))
                    yield ReferenceRun(input_set, self.run(input_set, COMBINED_TIMEOUT))

    def combined_runs(
        self, plans: Sequence[InputPlan], constants: ModelConstants, budget: WorkBudget, cheap: float = CHEAP_RUN
    ) -> Iterator[ReferenceRun]:
        """The runs on the plans that the model accepts, as many as `budget` allows."""
        late = 0
        most = max(LARGE_PART * budget.seconds, LARGE_GROWTH * self.costs.seconds(self.accepted_sizes[0]))
        first, distance = self.part
        plans = plans[first::distance] if distance else []
        for plan in plans:
            useful = self.record.useful_part(plan)
            if useful is None:
                continue
            seconds = self.costs.seconds(useful.sizes)
            affordable = min(budget.left(), most) if useful.kind == "sizes" else budget.left()
            if seconds > max(affordable, cheap) or budget.overdue:
                late += 1
                continue
            input_set = generate_combined(
                self.inputs, useful.kind, useful.kinds, useful.sizes, (self.seed, useful.number), constants
            )
            run = None
            with suppress(EvaluationError):  # the model may reject it
                run = ReferenceRun(input_set, self.run(input_set, COMBINED_TIMEOUT))
            budget.spent += seconds if run is not None else RUN_SECONDS
            self.record.add(useful, accepted=run is not None)
            if run is not None:
                yield run
        if late:
            what = "combined input sets" if cheap == CHEAP_RUN else "input sets for what changed"
            why = "far longer than estimated" if budget.overdue else "too long"
            self.notes.append(f"{late} of {len(plans)} {what} were skipped: runs take {why}")

    def _runs_of_kind(self, kind: str, accepted: list[Sizes]) -> Iterator[ReferenceRun]:
        """Yield the runs on all variants of a kind, at the first size assignment that is accepted for them."""
        in_turn = accepted[0]  # the usual sizes, or the smallest if the usual sizes are large
        if element_count(self.inputs, accepted[0]) > CHEAP_ELEMENTS:
            in_turn = min(accepted, key=lambda sizes: element_count(self.inputs, sizes))
        if kind in ROTATING_KINDS and in_turn == accepted[0]:
            in_turn = accepted[ROTATING_KINDS.index(kind) % len(accepted)]
        unusual = unusual_sizes(kind, accepted[0], self._fixed_symbols())
        tried = [p for p in unusual if element_count(self.inputs, p) <= CHEAP_ELEMENTS] + [in_turn, accepted[0]]
        found = False
        for variant in range(variant_count(self.inputs, kind, tried[0])):
            for items in dict.fromkeys(tuple(sizes.items()) for sizes in tried):
                run, _ = self._first_accepted(kind, dict(items), KINDS.index(kind) + 1, variant=variant)
                if run is not None:
                    found = True
                    yield run
                    break
        if not found and kind not in NONFINITE_VALUES:
            self.notes.append(f"the original fails on {kind} inputs, which were skipped")

    def _fixed_symbols(self) -> frozenset[str]:
        """The symbols whose sizes are determined by the user or the weights."""
        return frozenset(self.fixed.keys() | required_sizes(self.inputs, self.fixed).keys())

    def _empty_runs(self, base: Sizes) -> list[ReferenceRun]:
        """Runs at a size of 0: the `MAX_EMPTY_RUNS` runs with the most output elements, at most."""
        found: dict[frozenset[str], ReferenceRun] = {}
        for sizes in with_zeros(self.inputs, base, self._fixed_symbols()):
            zeros = frozenset(s for s, size in sizes.items() if size == 0)
            run = self._first_accepted("normal", sizes, 1)[0] if zeros not in found and sizes != base else None
            if run is not None:
                found[zeros] = run

        def order(run: ReferenceRun) -> tuple[int, int]:
            sizes = [r.size for r in run.outputs.values() if isinstance(r, np.ndarray)]
            return sum(n == 0 for n in sizes), -sum(sizes)

        return sorted(found.values(), key=order)[:MAX_EMPTY_RUNS]

    def _first_run(self) -> ReferenceRun:
        """The run on the first accepted input set, which also fixes undeclared ranks."""
        why, shares = "", with_unit_interval_floats(self.inputs)
        for inputs in (*with_tried_ranks(self.inputs), *(with_tried_ranks(shares) if shares else ())):
            for sizes in size_assignments(inputs, self.fixed):
                run, error = self._first_accepted("normal", sizes, 0, inputs)
                if run is not None:
                    self.inputs = inputs
                    return self._with_distinct_sizes(run)
                why = why or error
        if not why:
            count = element_count(self.inputs, dict.fromkeys(free_symbols(self.inputs), 1) | self.fixed)
            why = f"they would have {count:,} elements or more; give inputs of your own"
            raise UnverifiableError(f"no inputs are generated for the original: {why}")
        sized = [i.name for i in self.inputs if any(s not in self.fixed for s in free_symbols([i]))]
        is_loaded = "cannot load" not in why
        hint = f"; if it needs certain sizes, give --shape {sized[0]}:N,..." if sized and is_loaded else ""
        raise UnverifiableError(f"the original fails on all inputs that were tried: {why}{hint}")

    def _with_distinct_sizes(self, run: ReferenceRun) -> ReferenceRun:
        """The run at sizes that differ where possible, if the sizes of `run` are all equal.

        Symbols that must be equal are found in pairs; larger groups keep their sizes.
        """
        kept = self._fixed_symbols()
        free = [s for s in run.input_set.sizes if s not in kept]
        if len(free) < 2 or len({run.input_set.sizes[s] for s in free}) > 1:
            return run
        groups = chain(((s,) for s in free), combinations(free, 2))
        size = run.input_set.sizes[free[0]]
        for group in islice(groups, MAX_GROUPS):
            sizes = run.input_set.sizes
            if any(sizes[s] != size for s in group):
                continue
            for changed in with_one_distinct(sizes, group[0], set(sizes.values())):
                tried = changed | dict.fromkeys(group, changed[group[0]])
                if element_count(self.inputs, tried) > MAX_ELEMENTS:
                    continue
                try:
                    found, _ = self._first_accepted("normal", tried, 0)
                except OutOfTime:
                    return run
                if found is not None:
                    run = found
                    break
        return run

    def _runs_at_other_sizes(self, base: Sizes) -> Iterator[ReferenceRun]:
        """Yield runs at sizes of 1 and, if only 1 was accepted so far, at larger ones. Required sizes do not change."""
        kept = self.fixed | {s: n for s, n in required_sizes(self.inputs, self.fixed).items() if base[s] == n}
        tried, most = [base], max(MIN_ASSIGNMENTS, MAX_ASSIGNED_SIZES // max(len(base), 1))
        others = islice(with_ones(self.inputs, base, kept), most), islice(with_more(self.inputs, base, kept), most)
        for sizes in chain(*others):
            run, why = self._first_accepted("normal", sizes, 1) if sizes not in tried else (None, "")
            tried.append(sizes)
            for s in (s for s in sizes if why and sizes[s] != base[s]):
                self.refusals.setdefault(s, why)
            if run is not None:
                yield run
                if all(size == 1 for s, size in sizes.items() if s not in kept):
                    break

    def _note_sizes(self, accepted: list[Sizes]) -> None:
        kept = self._fixed_symbols()
        for symbol in (s for s in accepted[0] if s not in kept):
            seen = {p[symbol] for p in accepted}
            why = f": {self.refusals[symbol]}" if symbol in self.refusals else ""
            if 1 not in seen:
                self.notes.append(f"the original fails with {symbol}=1; that size was skipped{why}")
            elif len(seen) == 1:
                self.notes.append(f"the original fails unless {symbol}=1; other sizes were skipped{why}")

    def _first_accepted(
        self, kind: str, sizes: Sizes, number: int, inputs: list[InputSpec] | None = None, variant: int = 0
    ) -> tuple[ReferenceRun | None, str]:
        """The run on the first accepted input set of a kind, or None and the error of the first one."""
        why, seed = "", (self.seed, number, variant) if variant else (self.seed, number)
        for input_set in generate_input_sets(self.inputs if inputs is None else inputs, kind, sizes, seed, variant):
            try:
                return ReferenceRun(input_set, self.run(input_set)), ""
            except EvaluationError as e:
                why = why or str(e)
        return None, why


def _new(runs: Iterable[ReferenceRun], seen: set[Hashable]) -> Iterator[ReferenceRun]:
    """Yield the runs whose inputs are not in `seen`, and add these inputs to it."""
    for run in runs:
        if (content := run.input_set.content()) not in seen:
            seen.add(content)
            yield run


def require_generatable(inputs: list[InputSpec]) -> None:
    """Raise UnverifiableError unless an input is a tensor, or a sequence or optional of tensors, with few dims."""
    for i in inputs:
        if i.type_kind not in GENERATABLE:
            raise UnverifiableError(
                f"input {i.name} of the original ({i.type_kind}) cannot be generated; give inputs of your own"
            )
        if len(i.shape) > MAX_RANK:
            raise UnverifiableError(f"input {i.name} of the original has {len(i.shape)} dims, more than {MAX_RANK}")


def with_tried_ranks(inputs: list[InputSpec]) -> Iterator[list[InputSpec]]:
    """The inputs, with each of several ranks for those whose rank is not declared."""
    if all(i.is_ranked for i in inputs):
        yield inputs
        return
    for rank in TRIED_RANKS:
        yield [i if i.is_ranked else i.with_rank(rank) for i in inputs]


def with_unit_interval_floats(inputs: list[InputSpec]) -> list[InputSpec]:
    """The inputs with floats between 0 and 1, for models that accept no others; empty if all are already restricted."""
    free = {i.name for i in inputs if i.role.kind == "free" and is_float(i.numpy_dtype)}
    return [replace(i, role=replace(i.role, kind="share")) if i.name in free else i for i in inputs] if free else []
