"""Quarantine of wrong changes: bisection by replay, and exclusion from further runs.

Passes are deterministic, so the first wrong change is found by binary search over replays with a limit; it is
excluded, and the pipeline runs again without it. A correct run has no extra cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..errors import FailureKind, NoFixpoint, PassesError, PassFailed, RuleError, UnverifiableError, VerificationError
from ..io.files import in_memory
from ..io.split_models import Loadable, SplitModel
from ..ir.graph import FRESH_NAME_MARK
from ..rewriting.changes import Change
from ..rewriting.ledger import NO_LIMIT, BisectLimit, Ledger
from ..rewriting.rules import Contract, Rule
from ..support.binary_search import first_bad, first_bad_at
from ..support.watchdog import NoProgress
from ..verify.input_sets import InputSet
from .pass_manager import Attempt, CheckOptions, Failure, PassManager
from .pipeline import RulePass, find_pass, leaves, rule_names, rules_in

MAX_FAILURES_PER_RULE = 20  # wrong changes of one rule, or of a pass without rules, before it is excluded altogether


@dataclass(frozen=True, slots=True)
class RejectedChange:
    """An excluded change: its author and place, the failure, and the inputs that show it.

    `place` is the name of a value, or "" where a pass (or rule) is excluded as a whole. `error` and `allowed` are
    absolute; `input_kind` and `input_set` describe the inputs. `condition`: that of the rule's contract, if the failure
    shows only beyond finite numbers.
    """

    pass_name: str
    by: str
    place: str
    failure_kind: FailureKind
    message: str
    ordinal: int | None = None
    replaced: tuple[str, ...] = ()
    output: str = ""
    error: float | None = None
    allowed: float | None = None
    input_kind: str = ""
    input_set: str = ""
    repro: str = ""
    condition: str = ""

    @classmethod
    def of(
        cls,
        failure: Failure,
        pass_name: str,
        by: str = "",
        place: str = "",
        *,
        ordinal: int | None = None,
        replaced: tuple[str, ...] = (),
    ) -> RejectedChange:
        """The entry for a failure: of a change, or of a rule or pass as a whole, with the mismatch of the outputs."""
        found = cls(pass_name, by or pass_name, place, failure.kind, failure.message, ordinal, replaced)
        if failure.mismatch is None or (shown_by := failure.mismatch.input_set) is None:
            return found
        found = replace(found, output=failure.mismatch.output, input_kind=shown_by.kind, input_set=str(shown_by))
        off = failure.mismatch.difference
        return replace(found, error=off.error, allowed=off.allowed) if off is not None and off.error else found

    @property
    def label(self) -> str:
        """Author and place."""
        who = self.by if self.by == self.pass_name else f"{self.pass_name}/{self.by}"
        number = f" #{self.ordinal}" if self.ordinal is not None else ""
        return f"{who}{number} at {self.place}" if self.place else f"{who}{number}, as a whole"

    @property
    def description(self) -> str:
        """Label and message in one line, the place once."""
        return f"{self.label}: {self.message.removeprefix(f'{self.place}: ')}"


OnQuarantine = Callable[[RejectedChange, Attempt, Attempt | None], RejectedChange]
"""Called for each excluded change with the attempts just before and, if known, just after it; returns the entry."""
FaultLocation = tuple[RejectedChange, BisectLimit, Attempt | None]
"""An entry, the limit of a replay that stops just before it, and the attempt just after it if it is a change."""


@dataclass(slots=True)
class Quarantine:
    """Replays a run until it is correct. `quarantined` are the excluded changes, `replays` counts the runs.

    `conditional` are those of rules whose contract has a condition, one for each, if the outputs differ only beyond
    finite numbers, or where the expression of the condition is false, whose models are in `conditions`. Their rules are
    excluded until everything else is correct, then readmitted.
    """

    manager: PassManager
    options: CheckOptions
    on_quarantine: OnQuarantine | None = None
    max_failures_per_rule: int = MAX_FAILURES_PER_RULE
    quarantined: list[RejectedChange] = field(default_factory=list[RejectedChange])
    conditional: list[RejectedChange] = field(default_factory=list[RejectedChange])
    conditions: list[Loadable | SplitModel] = field(default_factory=list["Loadable | SplitModel"])
    replays: int = 0
    _trusts_conditions: bool = True
    _failure_counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    _last_good: tuple[InputSet | None, int] = (None, -1)  # an input set, and a change up to which it shows no fault

    @property
    def keeps_names(self) -> bool:
        """Whether names keep their meaning: all changes so far were requested, so they are rewrites of the graph."""
        return not self.manager.exclusions.atomic_passes

    def quarantine_next(self, failed: Attempt) -> RejectedChange:
        """Find and exclude the first wrong change of a full run. Raises VerificationError if no pass is the cause."""
        found, stop, after = self._locate_fault(failed)
        if condition := self._condition(found, failed, stop):
            found = replace(found, condition=condition)
            self.conditional.append(found)
            self._exclude_rule(found)
            return found
        if self.on_quarantine is not None:
            found = self.on_quarantine(found, self._replay(replace(self.options, compare=None), stop), after)
        if found.failure_kind != FailureKind.RAISED:
            self._readmit_raising()
        self._exclude(found)
        who = found.pass_name, found.by
        self._failure_counts[who] += 1
        if self._failure_counts[who] == self.max_failures_per_rule:
            much = f"{self.max_failures_per_rule} of its changes were wrong"
            self._exclude(RejectedChange(*who, "", found.failure_kind, much))
        return found

    def readmit_conditional(self) -> tuple[list[RejectedChange], list[Loadable | SplitModel]]:
        """Readmit the rules of `conditional`, and return these and the `conditions`."""
        self.manager.exclusions.rules.difference_update(q.by for q in self.conditional)
        found = self.conditional, self.conditions
        self.conditional, self.conditions = [], []
        return found

    def distrust_conditions(self) -> None:
        """Exclude changes from now on whatever the condition of their rule, as the outputs do not bear it out."""
        self._trusts_conditions = False

    def _condition(self, found: RejectedChange, failed: Attempt, stop: BisectLimit) -> str:
        """The condition of the rule of a wrong change, if the outputs differ only where that may be false."""
        mismatch = failed.failure.mismatch if failed.failure is not None else None
        if not self._trusts_conditions or mismatch is None or not mismatch.output or found.ordinal is None:
            return ""
        item = find_pass(self.manager.pipeline, found.pass_name)
        r = next((r for r in (rules_in(item) if item is not None else ()) if r.name == found.by), None)
        if not isinstance(r, Rule):  # but one of another tool
            return ""
        contracts = (c for c in (r.contract, r.contract.for_dtypes) if isinstance(c, Contract))
        words = next((c.condition for c in contracts if c.condition), "")
        is_excused = bool(words) and (mismatch.is_outside_finite or self._differs_outside_condition(r, failed, stop))
        return words if is_excused else ""

    def _differs_outside_condition(self, rule: Rule, failed: Attempt, stop: BisectLimit) -> bool:
        """Whether the failure shows only where what a rule assumes of the model at `stop` is false; keeps that."""
        if not rule.contract.assumptions:  # without two replays
            return False
        from ..proof.obligation import NotApplicable  # noqa: PLC0415 - seldom needed
        from ..proof.rule_condition import keep_condition  # noqa: PLC0415 - seldom needed

        model, rewritten = (self.manager.run(limit=stop).model for _ in range(2))
        try:
            if not keep_condition(rule, model, rewritten):
                return False
        except (NotApplicable, PassesError):
            return False
        condition = in_memory(model)
        options = self.options.to_reproduce(failed)
        under_it = replace(options, comparison=replace(options.comparison, conditions=(condition,)))
        if under_it.check(failed).failure is not None:
            return False
        self.conditions.append(condition)
        return True

    def _exclude(self, found: RejectedChange) -> None:
        self.quarantined.append(found)
        bans = self.manager.exclusions
        if found.ordinal is not None:
            # Ordinals of later changes shrink, so their exclusions start here too. One that raises is excluded always.
            ordinal = 0 if found.failure_kind == FailureKind.RAISED else found.ordinal
            self._lower_ordinals(ordinal)
            bans.changes[found.by, found.place] = ordinal
            if ordinal < self._last_good[1]:
                self._last_good = (None, -1)
            return
        names = bans.rules if self._is_rule(found.pass_name, found.by) else bans.passes
        if found.by in names:
            raise VerificationError(f"{found.message}; also without {found.by}")
        names.add(found.by)
        self._last_good = (None, -1)  # earlier changes have other ordinals now

    def _exclude_rule(self, found: RejectedChange) -> None:
        """Exclude the rule of a change at all places."""
        self.manager.exclusions.rules.add(found.by)
        self._lower_ordinals(found.ordinal or 0)
        self._last_good = (None, -1)  # earlier changes have other ordinals now

    def _lower_ordinals(self, ordinal: int) -> None:
        """Let the exclusions of later changes start at `ordinal`."""
        changes = self.manager.exclusions.changes
        changes.update({k: ordinal for k, other in changes.items() if other > ordinal})

    def _readmit_raising(self) -> None:
        """Readmit changes that raised, as an excluded earlier change may have been the cause."""
        bans = self.manager.exclusions
        for q in (q for q in self.quarantined if q.failure_kind == FailureKind.RAISED):
            bans.passes.discard(q.by)
            bans.rules.discard(q.by)
            bans.changes.pop((q.by, q.place), None)
        self.quarantined = [q for q in self.quarantined if q.failure_kind != FailureKind.RAISED]

    def _replay(self, options: CheckOptions, limit: BisectLimit = NO_LIMIT) -> Attempt:
        self.replays += 1
        return options.check(self.manager.run(limit=limit, record=True, validate_graphs=options.validates_graphs))

    def _locate_fault(self, failed: Attempt) -> FaultLocation:
        error, failure = failed.error, failed.failure
        assert failure is not None
        if error is None:
            options = self.options.to_reproduce(failed)
            again = self._replay(options)
            if again.failure is None:
                return self._nondeterministic_pass(failed, again)
            return self._bisect_changes(again, options)
        if not isinstance(error.__cause__, NoProgress):  # which would take as long again
            options = replace(self.options, compare=None, validates_graphs=True)
            checked = self._replay(options)
            if checked.failure is not None and checked.failure.kind == FailureKind.INVALID:
                return self._bisect_changes(checked, options)
        return self._fault_of_exception(error, failure, failed.ledger)

    def _nondeterministic_pass(self, failed: Attempt, again: Attempt) -> FaultLocation:
        """The first pass with another result in a second run. Raises VerificationError if there is none."""
        assert failed.failure is not None
        counts = [t.ledger.counts for t in (failed, again)]
        for name in dict.fromkeys(failed.ledger.passes_run):
            if counts[0].get(name) != counts[1].get(name):
                found = replace(failed.failure, message=f"{failed.failure.message}; it is not deterministic")
                return RejectedChange.of(found, name), BisectLimit(after_runs=0), None
        _require_memory(failed.failure)
        raise VerificationError(f"{failed.failure.message}; but not in a second run: a pass keeps state")

    def _fault_of_exception(self, error: PassFailed, failure: Failure, ledger: Ledger) -> FaultLocation:
        """The cause that an exception names: a rule at a place, a non-terminating rule or pass, or the failed pass."""
        cause = error.__cause__
        if isinstance(cause, RuleError) and cause.place and self._is_rule(error.pass_name, cause.rule):
            ordinal = ledger.change_count
            found = RejectedChange.of(failure, error.pass_name, cause.rule, cause.place, ordinal=ordinal)
            return found, BisectLimit(before_change=ordinal), None
        by = self._nonterminating(error, cause.suspects) if isinstance(cause, NoFixpoint) else error.pass_name
        holder = error.pass_name if self._is_rule(error.pass_name, by) else by
        return RejectedChange.of(failure, holder, by), BisectLimit(after_runs=len(ledger.passes_run)), None

    def _is_rule(self, pass_name: str, name: str) -> bool:
        """Whether the pass has a rule called `name`."""
        item = find_pass(self.manager.pipeline, pass_name)
        return item is not None and name in rule_names(item)

    def _nonterminating(self, error: PassFailed, suspects: Sequence[str]) -> str:
        """The first suspect without which the run terminates: a rule of the pass, or a pass of the group."""
        item = find_pass(self.manager.pipeline, error.pass_name)
        bans = self.manager.exclusions
        if isinstance(item, RulePass):
            names, rules = bans.rules, {r.name for r in item.rules}
            chosen = [s for s in suspects if s in rules]
        else:
            names = bans.passes
            inner = [find_pass(item, s) for s in suspects] if item is not None else []
            chosen = [leaf.name for q in inner if q is not None and q is not item for leaf in leaves(q)[::-1]]
        for suspect in chosen:
            names.add(suspect)
            again = self._replay(replace(self.options, compare=None)).error
            names.discard(suspect)
            if again is None or again.pass_name != error.pass_name:
                return suspect
        return chosen[0] if chosen else error.pass_name

    def _bisect_changes(self, failed: Attempt, options: CheckOptions) -> FaultLocation:
        """The first change after which the check with `options` fails."""
        assert failed.failure is not None
        mismatch, ledger = failed.failure.mismatch, failed.ledger
        shown_by = mismatch.input_set if mismatch is not None else None
        start = self._last_good[1] if shown_by is not None and shown_by is self._last_good[0] else -1
        suspects = [c.ordinal for c in ledger.changes if mismatch is not None and _is_within(c, mismatch.region)]

        def is_bad(number: int) -> bool:
            return self._replay(options, BisectLimit(before_change=number)).failure is not None

        number = first_bad_at(sorted({n for s in suspects for n in (s, s + 1)}), start, ledger.change_count, is_bad)
        after = self._replay(options, BisectLimit(after_changes=number)) if number > 0 else failed
        if number > 0 and after.failure is not None:
            self._last_good = shown_by, number - 1
            c = after.ledger.changes[-1]
            found = RejectedChange.of(after.failure, c.pass_name, c.by, c.place, ordinal=c.ordinal, replaced=c.replaced)
            return found, BisectLimit(before_change=number - 1), after
        return self._bisect_pass_runs(failed, options)

    def _bisect_pass_runs(self, failed: Attempt, options: CheckOptions) -> FaultLocation:
        """The first run of a pass after which the check fails, for mutations without permission of the ledger."""
        assert failed.failure is not None
        if (untouched := self._replay(options, BisectLimit(after_runs=0)).failure) is not None:
            _require_memory(untouched)
            raise VerificationError(f"even with no pass run: {untouched.message}")
        ran = failed.ledger.passes_run
        run = first_bad(0, len(ran), lambda n: self._replay(options, BisectLimit(after_runs=n)).failure is not None)
        return RejectedChange.of(failed.failure, ran[run - 1]), BisectLimit(after_runs=run - 1), None


def _require_memory(failure: Failure) -> None:
    """Raise UnverifiableError if the failure, which no change explains, is a lack of memory."""
    if failure.mismatch is not None and failure.mismatch.lacks_memory:
        raise UnverifiableError(failure.message)


def _is_within(change: Change, region: frozenset[str]) -> bool:
    """Whether a change is in a region: its place, or something that it replaced, by names in either model.

    A name that a rewrite generated counts as the one that it is made from.
    """
    names = (change.place, *(label.rpartition(" ")[2] for label in change.replaced))
    return any(name in region or name.partition(FRESH_NAME_MARK)[0] in region for name in names if name)
