"""The log of the changes of a run, numbered, so that a run can be replayed without some of them.

Passes are deterministic. Running them again on the same model with the same settings of the log makes the same
changes with the same ordinals; forbidding one, or stopping before the n-th, undoes without any undo log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

from ..errors import NoFixpoint
from ..ir.op import Op
from ..ir.values import Value
from .changes import Change, ChangeKey, SizeAccounting


@dataclass(frozen=True, slots=True)
class BisectLimit:
    """The point at which a replay ends early.

    `before_change`: before the change with that ordinal. `after_changes`, `after_runs`: after so many changes, or runs
    of single passes.
    """

    before_change: int | None = None
    after_changes: int | None = None
    after_runs: int | None = None


NO_LIMIT = BisectLimit()


@dataclass(slots=True)
class Exclusions:
    """Exclusions from a run: changes, from an ordinal on, and whole passes and rules, which may share a name.

    `atomic_passes` are the passes known not to request their changes; each of their runs is one change.
    """

    changes: dict[ChangeKey, int] = field(default_factory=dict[ChangeKey, int])
    passes: set[str] = field(default_factory=set[str])
    rules: set[str] = field(default_factory=set[str])
    atomic_passes: set[str] = field(default_factory=set[str])


class DetailReporter(Protocol):
    """Reports how far something is, unless it did so just now, or `always`."""

    def __call__(self, describe: Callable[[], str], /, *, always: bool = False) -> object:
        """Report what `describe` returns."""
        ...


@dataclass(slots=True)
class ChangeLog:
    """Numbers the changes of one run and decides which of them may be made.

    `exact_only`: changes that round are refused. `record`: keep each change in `changes`, not just their `counts` by
    pass and rule, and in `declines`, by pass and place, the reasons of passes without rules for changes not made in
    their last run. `validates_graphs`: graphs are checked after each pass. `accounting` records sizes of kept changes.
    `missing_operators`: the places at which rules declined for want of an operator, by that and the opset it came with.
    `report` is called for each pass and each change, with a function that describes how far the run is.
    """

    exact_only: bool = False
    record: bool = False
    exclusions: Exclusions = field(default_factory=Exclusions)
    limit: BisectLimit = NO_LIMIT
    validates_graphs: bool = False
    accounting: SizeAccounting | None = None
    change_count: int = 0
    passes_run: list[str] = field(default_factory=list[str])  # the single passes that ran, in order
    is_exact: bool = True  # whether every change so far keeps results bit for bit
    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    changes: list[Change] = field(default_factory=list[Change])
    declines: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    notes: list[str] = field(default_factory=list[str])
    missing_operators: dict[tuple[str, int], set[str]] = field(default_factory=dict[tuple[str, int], set[str]])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    report: DetailReporter | None = None
    _stopped: bool = False
    _change_limit: int | None = None  # the change count at which the running pass must end
    _running_passes: list[str] = field(default_factory=list[str])
    _nested_seconds: list[float] = field(default_factory=list[float])

    @property
    def stopped(self) -> bool:
        """Whether the end of a replay is reached."""
        limit = self.limit
        return self._stopped or self.change_count == limit.after_changes or len(self.passes_run) == limit.after_runs

    @property
    def observer_seconds(self) -> float:
        """The seconds that an observer took."""
        return self.accounting.observer_seconds if self.accounting is not None else 0.0

    def may_change(self, by: str, place: str, *, exact: bool = True) -> bool:
        """Whether a change may be made; does not count it. Ops added from here on are part of it."""
        self.start_change(by, place)
        return self._is_permitted(by, place, exact=exact)

    def start_change(self, by: str, place: str) -> None:
        """Record that a change is about to be made, if sizes are recorded."""
        if self.accounting is not None:
            self.accounting.start_change((by, place))

    def _is_permitted(self, by: str, place: str, *, exact: bool) -> bool:
        if self.change_count == self.limit.before_change:
            self._stopped = True
        if self.stopped or by in self.exclusions.rules or (self.exact_only and not exact):
            return False
        return self.change_count < self.exclusions.changes.get((by, place), self.change_count + 1)

    def request_change(self, by: str, place: str, replaced: Iterable[Op | Value] = (), *, exact: bool = True) -> bool:
        """Whether `by` may make a change at `place`, which removes `replaced`; if so, the change is counted."""
        place = str(place)  # an op or value will do
        if not self._is_permitted(by, place, exact=exact):
            return False
        running = self._running_passes[-1] if self._running_passes else by
        if self.change_count == self._change_limit:
            raise NoFixpoint(f"{running}: {self.counts[running].total()} changes without reaching a fixpoint")
        self.is_exact &= exact
        self.counts.setdefault(running, Counter())[by] += 1
        if self.record:
            removed = tuple(replaced)
            names = tuple(x.label if isinstance(x, Op) else x.name for x in removed)
            change = Change(self.change_count, running, by, place, names, exact)
            if self.accounting is not None:
                self.accounting.assign_mutations(self.changes, (by, place))
                self.accounting.register_change(change, removed)
            self.changes.append(change)
        self.change_count += 1
        if self.report is not None:
            self.report(self._position)
        return True

    def _position(self) -> str:
        """The running pass, and the number of changes so far."""
        changes = f", {self.change_count:,} change{'s' * (self.change_count != 1)}" if self.change_count else ""
        return f"pass {self._running_passes[-1]}{changes}" if self._running_passes else "no pass"

    def record_decline(self, by: str, place: str, reason: str) -> None:
        """Record, if changes are recorded, that `by` does not make a change at `place`."""
        if self.record:
            self.declines.setdefault(by, {})[place] = reason

    def note(self, text: str) -> None:
        """Add a line to the report of the run, once."""
        if text not in self.notes:
            self.notes.append(text)

    def finish(self) -> None:
        """End the run: assign the mutations since the last change."""
        if self.accounting is not None:
            self.accounting.assign_mutations(self.changes)

    @contextmanager
    def running_pass(self, name: str, max_changes: int | None = None) -> Generator[None]:
        """Count time and changes for the pass `name`; passes inside it count for themselves.

        The time of an observer is not counted. Raises NoFixpoint when it requests more than `max_changes` changes.
        """
        self._running_passes.append(name)
        self.declines.pop(name, None)
        self._nested_seconds.append(0.0)
        self._change_limit = None if max_changes is None else self.change_count + max_changes
        if self.report is not None:
            self.report(self._position, always=True)
        start = perf_counter() - self.observer_seconds
        try:
            yield
        finally:
            took = perf_counter() - self.observer_seconds - start
            self._running_passes.pop()
            self._change_limit = None
            self.seconds[name] = self.seconds.get(name, 0.0) + took - self._nested_seconds.pop()
            if self._nested_seconds:
                self._nested_seconds[-1] += took
