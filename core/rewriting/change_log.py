"""The log of a run's changes, numbered, so that a run can be replayed without some of them.

Passes are deterministic: running them again on the same model with the same settings of the log makes the same changes
with the same ordinals. Forbidding one, or stopping before the n-th, therefore undoes changes without an undo log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..errors import MatchFailure, NoFixpoint
from ..ir.graph import Graph, GraphContext, Mutation, MutationLog, is_counted
from ..ir.op import Op
from ..ir.values import Value
from ..processes.watchdog import require_time

ChangeKey = tuple[str, str]
"""The rule or pass that makes a change, and its place: a value that outlives it, or "" for a pass as a whole."""


class Change(Struct, frozen=True):
    """A change that was made: `ordinal` counts from 0 over the whole run.

    If sizes are recorded, `made` are the added ops, `nodes_saved` is the number of removed minus added ops, including
    subgraphs, and `weight_bytes_saved` the same for bytes of constants.
    """

    ordinal: int
    pass_name: str
    by: str
    place: str
    replaced: tuple[str, ...]
    exact: bool
    made: tuple[str, ...] = ()
    nodes_saved: int = 0
    weight_bytes_saved: int = 0

    @property
    def where(self) -> str:
        """A description of the place; everything that an external tool does is one change."""
        return f"at {self.place}" if self.place else "as a whole"


class ChangeObserver(Protocol):
    """An observer of each change. It must not change the graph, not even by inference.

    `mutations` are the mutations of the change so far; an added op may be removed again.
    """

    def before_change(self, change: Change, replaced: Sequence[Op | Value], mutations: Sequence[Mutation]) -> None:
        """Called with the graph before the change, except for `mutations`: ops built for it, without consumers.

        For a pass that does not request its changes, `mutations` are all of them.
        """
        ...

    def after_change(self, change: Change, mutations: Sequence[Mutation]) -> None:
        """Called with the graph after the change. Ops that a pass removes at its end may still exist."""
        ...


def inserted_ops(mutations: Iterable[Mutation]) -> list[Op]:
    """The ops that were added and not removed again, in order."""
    there: dict[Op, None] = {}
    for move in mutations:
        if move.op is not None and move.node_delta > 0:
            there[move.op] = None
        elif move.op is not None:
            there.pop(move.op, None)
    return list(there)


def removed_ops(mutations: Iterable[Mutation]) -> list[Op]:
    """The ops that existed before and were removed, in order."""
    mutations = list(mutations)
    own = {move.op for move in mutations if move.node_delta > 0}
    return [move.op for move in mutations if move.op is not None and move.node_delta < 0 and move.op not in own]


@dataclass(slots=True)
class SizeAccounting:
    """Assigns the mutations of a run to its changes; an ordinal is an index in their list.

    Mutations from the start of a change until the next one belong to it. An op that is removed later, at the end of a
    pass, belongs to the change of that pass that named it. An `observer` is called before and after each change;
    `observer_seconds` is its time, `observer_failure` its first exception.
    """

    log: MutationLog = field(default_factory=MutationLog)
    observer: ChangeObserver | None = None
    observer_seconds: float = 0.0
    observer_failure: Exception | None = None
    _observed: Change | None = None  # the change in progress
    _pending: tuple[ChangeKey, int] | None = None  # the last change that was started, and the mutations before it
    _change_of_op: dict[Op, int] = field(default_factory=dict[Op, int])
    _pass_name: str = ""

    def start_change(self, key: ChangeKey) -> None:
        """Record that a change is about to be made."""
        self._notify_after()
        self._pending = key, len(self.log.entries)

    def assign_mutations(self, changes: list[Change], upcoming: ChangeKey | None = None) -> None:
        """Assign the mutations so far, except mutations of the `upcoming` change."""
        self._notify_after()
        count = self._pending[1] if self._pending is not None and self._pending[0] == upcoming else None
        taken, self._pending = self.log.drain(count), None
        assigned: dict[int, list[Mutation]] = {}
        at = last = len(changes) - 1
        for mutation in taken:
            if mutation.op is not None:
                at = self._change_of_op.get(mutation.op, at) if mutation.node_delta < 0 else last
            assigned.setdefault(at, []).append(mutation)
        for ordinal, mutations in assigned.items() if changes else ():
            change = changes[ordinal]
            added = sum(m.node_delta for m in mutations if m.op is None or is_counted(m.op))
            changes[ordinal] = replace(
                change,
                made=(*change.made, *(op.label for op in inserted_ops(mutations))),
                nodes_saved=change.nodes_saved - added,
                weight_bytes_saved=change.weight_bytes_saved - sum(m.byte_delta for m in mutations),
            )

    def register_change(self, change: Change, replaced: Sequence[Op | Value]) -> None:
        """Record the ops that a change named, which may be removed later."""
        if self.observer is not None:
            self._observed = change
            self._notify(partial(self.observer.before_change, change, replaced, self.log.entries))
        if change.pass_name != self._pass_name:
            self._pass_name = change.pass_name
            self._change_of_op.clear()
        self._change_of_op.update((op, change.ordinal) for op in replaced if isinstance(op, Op))

    def _notify_after(self) -> None:
        """Call the observer after the last change, unless already done."""
        change, self._observed = self._observed, None
        if self.observer is not None and change is not None:
            self._notify(partial(self.observer.after_change, change, self.log.entries))

    def _notify(self, callback: Callable[[], None]) -> None:
        start = perf_counter()
        try:
            callback()
        except Exception as e:  # noqa: BLE001 - not the fault of a pass
            self.observer_failure = self.observer_failure or e
        self.observer_seconds += perf_counter() - start


class RunHooks(Protocol):
    """The hooks of a run (see `Instrumentation`), and the seconds that they took."""

    seconds: float

    @property
    def watches_rules(self) -> bool:
        """Whether a hook is called when rules are tried."""
        ...

    def call(self, name: str, context: GraphContext, *arguments: Any, **more: Any) -> None:
        """Call the hooks with that name. Raises InstrumentationError."""
        ...


class BisectLimit(Struct, frozen=True):
    """The point at which a replay ends early.

    `before_change`: before the change with that ordinal. `after_changes`, `after_runs`: after this number of changes,
    or of runs of single passes.
    """

    before_change: int | None = None
    after_changes: int | None = None
    after_runs: int | None = None


NO_LIMIT = BisectLimit()


@dataclass(slots=True)
class Exclusions:
    """Exclusions from a run: changes, starting at an ordinal, and whole passes and rules, which may share a name.

    `atomic_passes` are the passes known not to request their changes; each of their runs is one change. `why` says the
    reason for a change.
    """

    changes: dict[ChangeKey, int] = field(default_factory=dict[ChangeKey, int])
    passes: set[str] = field(default_factory=set[str])
    rules: set[str] = field(default_factory=set[str])
    atomic_passes: set[str] = field(default_factory=set[str])
    why: str = "this change was found wrong, and is skipped"


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
    their last run, and the reasons of decompositions by rule. `validates_graphs`: graphs are checked after each pass.
    `accounting` records sizes of kept changes.
    `missing_operators`: the places at which rules declined for want of an operator, by that and the opset it came with.
    `type_changes`: by ordinal, outputs that changes replace by values of another type or rank, in words.
    `report` is called for each pass and each change, with a function that describes how far the run is. `hooks` are
    called for each pass; `rule_hooks` are these if rules are watched.

    Examples:
        >>> def remove_relus(graph: Graph, change_log: ChangeLog) -> int:
        ...     count = 0
        ...     for op in graph.ops("Relu"):
        ...         if change_log.request_change("remove-relus", op.outputs[0].name, [op], exact=False):
        ...             graph.replace_value(op.outputs[0], op.input(0))
        ...             graph.discard([op])
        ...             count += 1
        ...     return count
        >>> remove_relus(graph, ChangeLog()), [op.type for op in graph.ops()]
        (1, ['Abs', 'Add'])
        >>> remove_relus(from_onnx(model).graph, ChangeLog(exact_only=True))  # no change that rounds is permitted
        0
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
    type_changes: dict[int, str] | None = None
    report: DetailReporter | None = None
    hooks: RunHooks | None = None
    rule_hooks: RunHooks | None = field(init=False)
    _stopped: bool = False
    _change_limit: int | None = None  # the change count at which the running pass must end
    _running_passes: list[str] = field(default_factory=list[str])
    _nested_seconds: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        """Watch rules only if a hook needs it."""
        self.rule_hooks = self.hooks if self.hooks is not None and self.hooks.watches_rules else None

    def call_hooks(self, name: str, p: object, graph: Graph, *more: object) -> None:
        """Call the hooks with that name for a pass, if there are any."""
        if self.hooks is not None:
            self.hooks.call(name, graph.context, p, graph, *more)

    @property
    def stopped(self) -> bool:
        """Whether the end of a replay was reached."""
        limit = self.limit
        return self._stopped or self.change_count == limit.after_changes or len(self.passes_run) == limit.after_runs

    @property
    def observer_seconds(self) -> float:
        """The seconds taken by an observer."""
        return self.accounting.observer_seconds if self.accounting is not None else 0.0

    @property
    def hook_seconds(self) -> float:
        """The seconds taken by hooks."""
        return self.hooks.seconds if self.hooks is not None else 0.0

    def _seconds_of_others(self) -> float:
        """The seconds not spent in passes."""
        return self.observer_seconds + self.hook_seconds

    def may_change(self, by: str, place: str, *, exact: bool = True) -> bool:
        """Whether a change is permitted; does not count it. Ops added from now on are part of it."""
        self.start_change(by, place)
        return not self.refusal(by, place, exact=exact)

    def start_change(self, by: str, place: str) -> None:
        """Record that a change is about to be made, if sizes are recorded."""
        if self.accounting is not None:
            self.accounting.start_change((by, place))

    def refusal(self, by: str, place: str, *, exact: bool) -> str:
        """Why a change is not permitted, or ""."""
        require_time()
        if self.change_count == self.limit.before_change:
            self._stopped = True
        if self.stopped:
            return "the run ends before this change"
        if self.exact_only and not exact:
            return "it may round, and only exact changes are allowed"
        if by in self.exclusions.rules:
            return f"changes of {by} were wrong, so all are skipped"
        return self.exclusions.why if self.change_count >= self.exclusions.changes.get((by, place), inf) else ""

    def request_change(self, by: str, place: str, replaced: Iterable[Op | Value] = (), *, exact: bool = True) -> bool:
        """Whether `by` may make a change at `place`, which removes `replaced`; if so, the change is counted."""
        place = str(place)  # ops and values are also accepted
        if self.refusal(by, place, exact=exact):
            return False
        running = self.running or by
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

    def require_change(self, by: str, place: str, replaced: Iterable[Op | Value] = (), *, exact: bool = True) -> None:
        """Like `request_change`, but raise MatchFailure with the reason if the change is not permitted."""
        if not self.request_change(by, place, replaced, exact=exact):
            raise MatchFailure(self.refusal(by, place, exact=exact))

    def _position(self) -> str:
        """The running pass, and the number of changes so far."""
        changes = f", {self.change_count:,} change{'s' * (self.change_count != 1)}" if self.change_count else ""
        return f"pass {self._running_passes[-1]}{changes}" if self._running_passes else "no pass"

    def record_decline(self, by: str, place: str, reason: str) -> None:
        """If changes are recorded, record why `by` does not make a change at `place`."""
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

    @property
    def running(self) -> str:
        """The running pass."""
        return self._running_passes[-1] if self._running_passes else ""

    @contextmanager
    def running_pass(self, name: str, max_changes: int | None = None) -> Generator[None]:
        """Count time and changes for the pass `name`; passes inside it are counted separately.

        The time of observers and hooks is not included. Raises NoFixpoint if it requests more than `max_changes`
        changes.
        """
        self._running_passes.append(name)
        self.declines.pop(name, None)
        self._nested_seconds.append(0.0)
        outer_limit = self._change_limit
        self._change_limit = None if max_changes is None else self.change_count + max_changes
        if self.report is not None:
            self.report(self._position, always=True)
        start = perf_counter() - self._seconds_of_others()
        try:
            yield
        finally:
            took = perf_counter() - self._seconds_of_others() - start
            self._running_passes.pop()
            self._change_limit = outer_limit
            self.seconds[name] = self.seconds.get(name, 0.0) + took - self._nested_seconds.pop()
            if self._nested_seconds:
                self._nested_seconds[-1] += took
