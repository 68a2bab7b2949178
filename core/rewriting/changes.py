"""The changes of a run, their sizes, and observers of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Protocol

from ..ir.graph import Mutation, MutationLog
from ..ir.op import Op
from ..ir.subgraphs import is_counted
from ..ir.values import Value

ChangeKey = tuple[str, str]
"""The rule or pass that makes a change, and its place: a value that outlives it, "" for a pass as a whole."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was made: `ordinal` counts from 0 over the whole run.

    If sizes are recorded, `made` are the ops that it added; `nodes_saved` are the ops removed less those added, in
    subgraphs too, `weight_bytes_saved` the same in bytes of constants.
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
        """The place in words; all that an external tool does is one change."""
        return f"at {self.place}" if self.place else "as a whole"


class ChangeObserver(Protocol):
    """An observer of each change. It must not change the graph, not even by inference.

    `mutations` are the mutations of the change so far: an op that was added may be removed again.
    """

    def before_change(self, change: Change, replaced: Sequence[Op | Value], mutations: Sequence[Mutation]) -> None:
        """Called with the graph before the change, except for `mutations`: ops built for it, without consumers.

        For a pass that does not request its changes, `mutations` are all of them.
        """
        ...

    def after_change(self, change: Change, mutations: Sequence[Mutation]) -> None:
        """Called with the graph after the change. Ops that a pass removes at its end may still be there."""
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
    """Assigns the mutations of a run to its changes, all of which are kept: an ordinal is an index in their list.

    Mutations from the start of a change until the next one belong to it. An op that is removed later, at the end of a
    pass, belongs to the change of that pass which named it. An `observer` is called before and after each change;
    `observer_seconds` is its time, `observer_failure` its first exception.
    """

    log: MutationLog = field(default_factory=MutationLog)
    observer: ChangeObserver | None = None
    observer_seconds: float = 0.0
    observer_failure: Exception | None = None
    _observed: Change | None = None  # the change that is being made
    _pending: tuple[ChangeKey, int] | None = None  # the change that was started last, and the mutations before it
    _change_of_op: dict[Op, int] = field(default_factory=dict[Op, int])
    _pass_name: str = ""

    def start_change(self, key: ChangeKey) -> None:
        """Record that a change is about to be made."""
        self._notify_after()
        self._pending = key, len(self.log.entries)

    def assign_mutations(self, changes: list[Change], upcoming: ChangeKey | None = None) -> None:
        """Assign the mutations so far, but for the mutations of the change that is about to be made, if any."""
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
        """Call the observer after the last change, unless that was done."""
        change, self._observed = self._observed, None
        if self.observer is not None and change is not None:
            self._notify(partial(self.observer.after_change, change, self.log.entries))

    def _notify(self, callback: Callable[[], None]) -> None:
        start = perf_counter()
        try:
            callback()
        except Exception as e:  # noqa: BLE001 - it is not the fault of a pass
            self.observer_failure = self.observer_failure or e
        self.observer_seconds += perf_counter() - start
