"""Runs of a pipeline on a model, repeated without the changes that are found to be wrong.

Passes are deterministic, so bisection over limited replays finds the first wrong change. It is excluded, and the
pipeline runs again without it. A correct run has no additional cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ..errors import (
    MORE_MEMORY,
    FailureKind,
    GraphError,
    InterfaceError,
    ModelError,
    NoFixpoint,
    PassFailed,
    RuleError,
    UnverifiableError,
    VerificationError,
    format_error,
)
from ..io.files import in_memory
from ..io.model import Model, serialize
from ..io.split_models import Loadable
from ..ir.graph import FRESH_NAME_MARK, ValueInfo
from ..processes.watchdog import required_progress
from ..rewriting.change_log import NO_LIMIT, BisectLimit, Change, ChangeLog, ChangeObserver, Exclusions, SizeAccounting
from ..rewriting.rules import Contract, Rule
from ..serialization.provenance import with_conditions
from ..support.binary_search import first_bad, first_bad_at
from ..support.gc_pause import gc_paused
from ..verify.comparison_options import ComparisonOptions
from ..verify.input_sets import InputSet
from ..verify.verdict import Verdict
from .failures import RejectedChange, RewriteFailure
from .instrumentation import Hooks, Instrumentation
from .model_interface import ModelInterface
from .name_map import NameTracker, name_map
from .phase_timer import BISECTING, INSTRUMENTATION, REWRITING, VISUALIZING, PhaseTimer
from .pipeline import Pass, RulePass, find_pass, has_rule, leaves, rules_in, run_pass

NO_PROGRESS_TIMEOUT = 300.0  # seconds; constant folding may take this long for one large op
MAX_FAILURES_PER_RULE = 20  # wrong changes of a rule, or of a pass without rules, before it is excluded completely

Comparer = Callable[[Loadable, ComparisonOptions], Verdict]
"""Compares a model with the original."""


class RewriteResult(Struct, frozen=True):
    """The model after a run, the change log, and the failure, if there is one.

    `error` is the exception of a pass. `exact`: the comparison that found the failure required bit-identical outputs.
    `tracker` is for names, if they were tracked; `observer` for changes, if there was one.
    """

    model: Model
    change_log: ChangeLog
    failure: RewriteFailure | None = None
    error: PassFailed | None = None
    exact: bool = False
    tracker: NameTracker | None = None
    observer: ChangeObserver | None = None

    @property
    def may_round(self) -> bool:
        """Whether a change may round."""
        return not self.change_log.is_exact

    def failing(self, failure: RewriteFailure, *, exact: bool = False) -> RewriteResult:
        """The result with a failure found in export or in a comparison."""
        return replace(self, failure=failure, exact=exact)

    def name_map(self) -> dict[str, object]:
        """The name map, after export, if names were tracked."""
        assert self.tracker is not None
        return name_map(self.tracker, self.model, self.change_log.changes)


OnRejected = Callable[[RejectedChange, RewriteResult, RewriteResult | None], RejectedChange]
"""Called for each rejected change with the results just before and, if known, just after it; returns the entry."""


class BisectResult(Struct, frozen=True):
    """The wrong change, the limit of a replay that stops just before it, and the result just after it, if known.

    `good` is an input set, and a change up to which it shows no fault.
    """

    change: RejectedChange
    stop: BisectLimit
    after: RewriteResult | None = None
    good: tuple[InputSet | None, int] | None = None


@dataclass(slots=True)
class PipelineRun:
    """The run of `pipeline` on the model that `load` returns, and its repetitions without wrong changes.

    Attributes:
        exclusions: what all repetitions omit; grows as wrong changes are found. `rejected` lists these, and `replays`
            is the number of runs that it took to find them.
        strict: raise VerificationError for the first wrong change, as is always done for the passes in `required`.
        no_progress_timeout: seconds after which a pass that changes nothing and does not return ends a command.
        value_info: the policy for the written model.
        track_names: record names for a name map.
        record_changes: record changes with their savings.
        new_observer: makes an observer of the changes of each repetition.
        instruments: hooks, which repetitions call and replays do not.
        stop_after: the number of changes after which each repetition ends.
        conditional: the rejected changes, one per rule, of rules whose contract has a condition, if outputs differ only
            beyond finite numbers. These rules are excluded until everything else is correct, then readmitted; results
            then state their `conditions`.
        reuses_names: the passes that gave names other meanings.
    """

    load: Callable[[], Model]
    pipeline: Pass
    exact_only: bool = False
    timer: PhaseTimer = field(default_factory=PhaseTimer)
    exclusions: Exclusions = field(default_factory=Exclusions)
    no_progress_timeout: float = NO_PROGRESS_TIMEOUT
    value_info: ValueInfo = "keep"
    strict: bool = False
    required: Collection[str] = ()
    track_names: bool = False
    record_changes: bool = False
    stop_after: int | None = None
    instruments: Sequence[Instrumentation] = ()
    new_observer: Callable[[], ChangeObserver] | None = None
    on_rejected: OnRejected | None = None
    rejected: list[RejectedChange] = field(default_factory=list[RejectedChange], init=False)
    conditional: list[RejectedChange] = field(default_factory=list[RejectedChange], init=False)
    conditions: list[str] = field(default_factory=list[str], init=False)
    replays: int = field(default=0, init=False)
    trusts_conditions: bool = field(default=True, init=False)
    reuses_names: set[str] = field(default_factory=set[str], init=False)
    known_good: tuple[InputSet | None, int] = field(default=(None, -1), init=False)
    """An input set, and a change up to which it shows no fault."""
    _failure_counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]], init=False)

    @property
    def keeps_names(self) -> bool:
        """Whether names keep their meaning, as far as is known: all changes were requested, and none reuses names."""
        return not (self.exclusions.atomic_passes or self.reuses_names)

    def rewrite(self, model: Model | None = None) -> RewriteResult:
        """Run the pipeline without the changes that were found to raise, not end, or break the graph.

        `model`, if given, must be as returned by `load`; it is rewritten in place. Raises VerificationError; see
        `reject`.
        """
        while True:
            with gc_paused(), self.timer.phase(REWRITING):
                model = self.load() if model is None else model
                observer = self.new_observer() if self.new_observer is not None else None
                weighs = self.record_changes or observer is not None
                change_log = ChangeLog(
                    self.exact_only,
                    weighs or self.track_names or self.stop_after is not None or bool(self.instruments),
                    self.exclusions,
                    BisectLimit(after_changes=self.stop_after),
                    accounting=SizeAccounting(observer=observer) if weighs else None,
                    report=self.timer.report,
                    hooks=Hooks(self.instruments) if self.instruments else None,
                )
                tracker = NameTracker.of(model) if self.track_names else None
                if change_log.hooks is not None:
                    change_log.hooks.call("start", model.graph.context, model)
                result = replace(self._run(model, change_log), tracker=tracker, observer=observer)
            self.timer.transfer(REWRITING, VISUALIZING, change_log.observer_seconds)
            self.timer.transfer(REWRITING, INSTRUMENTATION, change_log.hook_seconds)
            if result.failure is None:
                return result
            self.reject(result)
            model = None

    def replay(
        self,
        limit: BisectLimit = NO_LIMIT,
        *,
        model: Model | None = None,
        validates_graphs: bool = False,
        tries_export: bool = False,
        notes_types: bool = False,
    ) -> RewriteResult:
        """Run the pipeline once, to its end or up to `limit`, and record its changes.

        `model`, if given, must be as returned by `load`; it is rewritten in place. `validates_graphs`: validate the
        graph after each pass. `tries_export`: also serialize the model. `notes_types`: record changes of types in the
        change log.
        """
        self.replays += 1
        if limit.after_changes is None:
            limit = replace(limit, after_changes=self.stop_after)
        change_log = ChangeLog(
            self.exact_only, True, self.exclusions, limit, validates_graphs, report=self.timer.report
        )
        change_log.type_changes = {} if notes_types else None
        return self._run(self.load() if model is None else model, change_log, tries_export=tries_export)

    def _run(self, model: Model, change_log: ChangeLog, *, tries_export: bool = False) -> RewriteResult:
        """Rewrite `model`; the result has a failure that shows without running the model."""
        interface = ModelInterface.of(model)
        if change_log.accounting is not None:
            model.graph.context.mutation_log = change_log.accounting.log
        failed = None
        try:
            with required_progress(
                lambda: (model.graph.context.mutation_count, change_log.change_count, len(change_log.passes_run)),
                self.no_progress_timeout,
                lambda: f"{change_log.running or self.pipeline.name} changes nothing and does not return",
            ):
                run_pass(self.pipeline, model.graph, change_log)
        except PassFailed as e:
            failed = e
        change_log.finish()
        model.graph.context.value_info = self.value_info  # passes that send the model to other tools kept it
        if failed is not None:
            return RewriteResult(model, change_log, RewriteFailure(failed.kind, str(failed)), failed)
        failure = static_failure(model, interface, tries_export=tries_export)
        if self.conditions:
            model.header = with_conditions(model.header, self.conditions)
        return RewriteResult(model, change_log, failure)

    def reject(self, failed: RewriteResult, compare: Comparer | None = None) -> RejectedChange | None:
        """Find the first wrong change, and exclude it from repetitions; `compare` finds wrong outputs.

        None if the change is by a pass that may give names other meanings, and no output differs: values with the same
        name are then no longer compared. Raises VerificationError if no pass is the cause, or if the change must not be
        skipped.
        """
        with gc_paused(), self.timer.phase(BISECTING):
            fault = ChangeBisector(self, failed, compare).locate()
            if self.keeps_names and self._reuses_names(fault, failed):
                self.reuses_names.add(fault.change.pass_name)
                return None
            found = self._conditional(fault) if fault.change.condition else self._reject(fault)
        if (self.strict or found.by in self.required) and not found.condition:
            raise VerificationError(f"{found.message}; first broken by {found.label}")
        return found

    def _reuses_names(self, fault: BisectResult, failed: RewriteResult) -> bool:
        """Whether a change may be correct except for inner names to which its pass may give other meanings."""
        failure = (fault.after or failed).failure or failed.failure
        mismatch = None if failure is None else failure.mismatch
        if mismatch is None or not mismatch.cut_point or mismatch.output != mismatch.cut_point:
            return False
        makers = (p for p in leaves(self.pipeline) if p.name == fault.change.pass_name)
        return any(getattr(p, "reuses_names", False) for p in makers)

    def readmit_conditional(self) -> list[RejectedChange]:
        """Readmit and return the rules of `conditional`; results then state their conditions."""
        self.exclusions.rules.difference_update(q.by for q in self.conditional)
        found, self.conditional = self.conditional, []
        self.conditions = [f"{q.by}: {q.condition}" for q in found]
        return found

    def distrust_conditions(self) -> None:
        """From now on, exclude changes whatever the condition of their rule, because outputs contradict it."""
        self.trusts_conditions, self.conditions = False, []

    def _conditional(self, fault: BisectResult) -> RejectedChange:
        """Exclude, at all places, the rule of a change that is wrong only if its condition is false."""
        self.conditional.append(fault.change)
        self.exclusions.rules.add(fault.change.by)
        self._lower_ordinals(fault.change.ordinal or 0)
        self.known_good = (None, -1)  # earlier changes now have other ordinals
        return fault.change

    def _reject(self, fault: BisectResult) -> RejectedChange:
        found = fault.change
        if fault.good is not None:
            self.known_good = fault.good
        if self.on_rejected is not None:
            found = self.on_rejected(found, self.replay(fault.stop), fault.after)
        if found.failure_kind != FailureKind.RAISED:
            self._readmit_raising()
        self._exclude(found)
        who = found.pass_name, found.by
        self._failure_counts[who] += 1
        if self._failure_counts[who] == MAX_FAILURES_PER_RULE:
            much = f"{MAX_FAILURES_PER_RULE} of its changes were wrong"
            self._exclude(RejectedChange(*who, "", found.failure_kind, much))
        return found

    def _exclude(self, found: RejectedChange) -> None:
        self.rejected.append(found)
        self.reuses_names.discard(found.pass_name)
        bans = self.exclusions
        if found.ordinal is not None:
            # Ordinals of later changes shrink, so their exclusions start here too. One that raises is excluded always.
            ordinal = 0 if found.failure_kind == FailureKind.RAISED else found.ordinal
            self._lower_ordinals(ordinal)
            bans.changes[found.by, found.place] = ordinal
            if ordinal < self.known_good[1]:
                self.known_good = (None, -1)
            return
        names = bans.rules if has_rule(self.pipeline, found.pass_name, found.by) else bans.passes
        if found.by in names:
            raise VerificationError(f"{found.message}; also without {found.by}")
        names.add(found.by)
        self.known_good = (None, -1)  # earlier changes now have other ordinals

    def _lower_ordinals(self, ordinal: int) -> None:
        """Make the exclusions of later changes start at `ordinal`."""
        changes = self.exclusions.changes
        changes.update({k: ordinal for k, other in changes.items() if other > ordinal})

    def _readmit_raising(self) -> None:
        """Readmit changes that raised, because an excluded earlier change may have been the cause."""
        bans = self.exclusions
        for q in (q for q in self.rejected if q.failure_kind == FailureKind.RAISED):
            bans.passes.discard(q.by)
            bans.rules.discard(q.by)
            bans.changes.pop((q.by, q.place), None)
        self.rejected[:] = [q for q in self.rejected if q.failure_kind != FailureKind.RAISED]


def static_failure(model: Model, interface: ModelInterface, *, tries_export: bool) -> RewriteFailure | None:
    """The failure of a rewritten model that shows without running it; with `tries_export`, also on export. O(V + E)."""
    try:
        model.graph.validate()
        interface.require(model)
        if tries_export:
            serialize(model)
    except InterfaceError as e:
        return RewriteFailure(FailureKind.INTERFACE, str(e))
    except (ModelError, MemoryError, OSError):
        raise
    except Exception as e:  # noqa: BLE001 - a pass may leave anything
        return RewriteFailure(FailureKind.INVALID, format_error(e))
    return None


Replay = Callable[[BisectLimit], RewriteResult]
"""Replays a run up to a limit, with the checks that show a failure."""


class ChangeBisector(Struct, frozen=True):
    """The search for the first wrong change of a run that `failed`; `compare` finds wrong outputs."""

    run: PipelineRun
    failed: RewriteResult
    compare: Comparer | None = None

    def locate(self) -> BisectResult:
        """Locate the fault, with the condition of its rule if it shows only where that may be false.

        Raises VerificationError if no pass is the cause, and UnverifiableError if memory ran out.
        """
        return self._under_condition(self._fault())

    @property
    def _failure(self) -> RewriteFailure:
        assert self.failed.failure is not None
        return self.failed.failure

    def _fault(self) -> BisectResult:
        error = self.failed.error
        if error is None:
            again = self._reproduce()
            if again.failure is None:
                return self._nondeterministic_pass(again)
            return self._first_wrong_change(again, self._reproduce)
        replay = partial(self.run.replay, validates_graphs=True)
        checked = replay()
        if checked.failure is not None and checked.failure.kind == FailureKind.INVALID:
            return self._first_wrong_change(checked, replay)
        return self._fault_of_exception(error)

    def _reproduce(self, limit: BisectLimit = NO_LIMIT) -> RewriteResult:
        """Replay the run up to a limit, with the checks needed to reproduce the failure."""
        if self._failure.kind not in {FailureKind.WRONG, FailureKind.REFUSED}:
            return self.run.replay(limit, tries_export=True)
        return self._compared(self.run.replay(limit))

    def _compared(self, result: RewriteResult) -> RewriteResult:
        """Compare on the input set of the failure; return the result with the failure, if any."""
        if result.failure is not None:
            return result
        assert self.compare is not None
        mismatch, exact = self._failure.mismatch, self.failed.exact
        options = ComparisonOptions(
            exact=exact,
            input_sets=(mismatch.input_set,) if mismatch is not None and mismatch.input_set is not None else (),
            compare_regions=self.run.keeps_names,
            may_round=self.failed.may_round,
        )
        try:
            found = self.compare(in_memory(result.model), options).failure
        except GraphError as e:  # it cannot be written
            return result.failing(RewriteFailure(FailureKind.INVALID, str(e)), exact=exact)
        return result if found is None else result.failing(RewriteFailure.of_mismatch(found), exact=exact)

    def _under_condition(self, fault: BisectResult) -> BisectResult:
        """The fault with the condition of its rule, if the outputs differ only beyond finite numbers."""
        change, mismatch = fault.change, self._failure.mismatch
        if not self.run.trusts_conditions or mismatch is None or change.ordinal is None:
            return fault
        if not mismatch.is_outside_finite:
            return fault
        if mismatch.input_set is not None and mismatch.input_set.is_given:
            return fault
        item = find_pass(self.run.pipeline, change.pass_name)
        r = next((r for r in (rules_in(item) if item is not None else ()) if r.name == change.by), None)
        if not isinstance(r, Rule):  # it belongs to another tool
            return fault
        contracts = (c for c in (r.contract, r.contract.for_dtypes) if isinstance(c, Contract))
        words = next((c.condition for c in contracts if c.condition), "")
        return replace(fault, change=replace(change, condition=words)) if words else fault

    def _nondeterministic_pass(self, again: RewriteResult) -> BisectResult:
        """The first pass whose result differs in a second run. Raises VerificationError if there is none."""
        counts = [t.change_log.counts for t in (self.failed, again)]
        for name in dict.fromkeys(self.failed.change_log.passes_run):
            if counts[0].get(name) != counts[1].get(name):
                found = replace(self._failure, message=f"{self._failure.message}; it is not deterministic")
                return BisectResult(RejectedChange.of(found, name), BisectLimit(after_runs=0))
        _require_memory(self._failure)
        raise VerificationError(f"{self._failure.message}; a second run did not fail, so a pass keeps state")

    def _fault_of_exception(self, error: PassFailed) -> BisectResult:
        """The cause named by an exception: a rule at a place, a nonterminating rule or pass, or the failed pass."""
        cause, change_log, pipeline = error.__cause__, self.failed.change_log, self.run.pipeline
        if isinstance(cause, RuleError) and cause.place and has_rule(pipeline, error.pass_name, cause.rule):
            ordinal = change_log.change_count
            found = RejectedChange.of(self._failure, error.pass_name, cause.rule, cause.place, ordinal=ordinal)
            return BisectResult(found, BisectLimit(before_change=ordinal))
        by = self._nonterminating(error, cause.suspects) if isinstance(cause, NoFixpoint) else error.pass_name
        holder = error.pass_name if has_rule(pipeline, error.pass_name, by) else by
        return BisectResult(
            RejectedChange.of(self._failure, holder, by), BisectLimit(after_runs=len(change_log.passes_run))
        )

    def _nonterminating(self, error: PassFailed, suspects: Sequence[str]) -> str:
        """The first suspect without which the run terminates: a rule of the pass, or a pass of the group."""
        item = find_pass(self.run.pipeline, error.pass_name)
        bans = self.run.exclusions
        if isinstance(item, RulePass):
            names, rules = bans.rules, {r.name for r in item.rules}
            chosen = [s for s in suspects if s in rules]
        else:
            names = bans.passes
            inner = [find_pass(item, s) for s in suspects] if item is not None else []
            chosen = [leaf.name for q in inner if q is not None and q is not item for leaf in leaves(q)[::-1]]
        for suspect in chosen:
            names.add(suspect)
            again = self.run.replay().error
            names.discard(suspect)
            if again is None or again.pass_name != error.pass_name:
                return suspect
        return chosen[0] if chosen else error.pass_name

    def _first_wrong_change(self, failed: RewriteResult, replay: Replay) -> BisectResult:
        """The first change after which a replay fails."""
        assert failed.failure is not None
        mismatch, change_log = failed.failure.mismatch, failed.change_log
        shown_by = mismatch.input_set if mismatch is not None else None
        set_of_good, good = self.run.known_good
        start = good if shown_by is not None and shown_by is set_of_good else -1
        suspects = [c.ordinal for c in change_log.changes if mismatch is not None and _is_within(c, mismatch.region)]

        def is_bad(number: int) -> bool:
            return replay(BisectLimit(before_change=number)).failure is not None

        number = first_bad_at(sorted({n for s in suspects for n in (s, s + 1)}), start, change_log.change_count, is_bad)
        after = replay(BisectLimit(after_changes=number)) if number > 0 else failed
        if number > 0 and after.failure is not None:
            c = after.change_log.changes[-1]
            failure = self._with_type_change(after.failure, number)
            found = RejectedChange.of(failure, c.pass_name, c.by, c.place, ordinal=c.ordinal, replaced=c.replaced)
            return BisectResult(found, BisectLimit(before_change=number - 1), after, (shown_by, number - 1))
        return self._first_wrong_pass_run(failed, replay)

    def _with_type_change(self, failure: RewriteFailure, number: int) -> RewriteFailure:
        """The failure after `number` changes, with a note if the last one changed the type or rank of a value."""
        difference = failure.mismatch.difference if failure.mismatch is not None else None
        if failure.kind != FailureKind.REFUSED and (difference is None or difference.error):
            return failure
        log = self.run.replay(BisectLimit(after_changes=number), notes_types=True).change_log
        why = (log.type_changes or {}).get(number - 1, "")
        return replace(failure, message=f"{why}; {failure.message}") if why else failure

    def _first_wrong_pass_run(self, failed: RewriteResult, replay: Replay) -> BisectResult:
        """The first run of a pass after which a replay fails, for mutations not requested from the change log."""
        assert failed.failure is not None
        if (untouched := replay(BisectLimit(after_runs=0)).failure) is not None:
            _require_memory(untouched)
            raise VerificationError(f"even with no pass run: {untouched.message}")
        ran = failed.change_log.passes_run
        run = first_bad(0, len(ran), lambda n: replay(BisectLimit(after_runs=n)).failure is not None)
        return BisectResult(RejectedChange.of(failed.failure, ran[run - 1]), BisectLimit(after_runs=run - 1))


def _require_memory(failure: RewriteFailure) -> None:
    """Raise UnverifiableError if the failure, which no change explains, means that memory ran out."""
    if failure.mismatch is not None and failure.mismatch.lacks_memory:
        raise UnverifiableError(f"{failure.message}; {MORE_MEMORY}")


def _is_within(change: Change, region: frozenset[str]) -> bool:
    """Whether a change is in a region: its place, or something that it replaced, by names in either model.

    A generated name counts as the name from which it was made.
    """
    names = (change.place, *(label.rpartition(" ")[2] for label in change.replaced))
    return any(name in region or name.partition(FRESH_NAME_MARK)[0] in region for name in names if name)
