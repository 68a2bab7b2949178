"""Who looks at the graph while a run changes it, just before each change and just after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from ..ir.mutation_log import Mutation
from ..ir.op import Op
from ..ir.values import Value
from .changes import Change


class ChangeObserver(Protocol):
    """Sees each change that is made, and must leave the graph as it is: nothing may be inferred either.

    `mutations` are those of the change, as far as they are known: an op that came may have gone again.
    """

    def before_change(self, change: Change, replaced: Sequence[Op | Value], mutations: Sequence[Mutation]) -> None:
        """The graph is as the change finds it, except for the `mutations`: ops built for it, with no consumers.

        Of a pass that changes graphs without asking, they are all that it did.
        """
        ...

    def after_change(self, change: Change, mutations: Sequence[Mutation]) -> None:
        """The graph is as the change left it. What a pass tidies up at its end may still be there."""
        ...


@dataclass(slots=True)
class ObserverDispatcher:
    """Calls a witness at the right times. `seconds` is what that took, `failure` what first kept it from looking."""

    observer: ChangeObserver
    seconds: float = 0.0
    failure: Exception | None = None
    _current_change: Change | None = None  # the change that is being made

    def notify_before(self, change: Change, replaced: Sequence[Op | Value], mutations: Sequence[Mutation]) -> None:
        """A change is about to be made."""
        self._current_change = change
        self._call(lambda: self.observer.before_change(change, replaced, mutations))

    def notify_after(self, mutations: Sequence[Mutation]) -> None:
        """The next one is begun: the last is made, if it has not been said yet."""
        if self._current_change is None:
            return
        change, self._current_change = self._current_change, None
        self._call(lambda: self.observer.after_change(change, mutations))

    def _call(self, callback: Callable[[], None]) -> None:
        start = perf_counter()
        try:
            callback()
        except Exception as e:  # noqa: BLE001 - no pass is to be blamed for it
            self.failure = self.failure or e
        self.seconds += perf_counter() - start


def inserted_ops(mutations: Iterable[Mutation]) -> list[Op]:
    """The ops that came and did not go again, in order."""
    there: dict[Op, None] = {}
    for move in mutations:
        if move.op is not None and move.node_delta > 0:
            there[move.op] = None
        elif move.op is not None:
            there.pop(move.op, None)
    return list(there)


def removed_ops(mutations: Iterable[Mutation]) -> list[Op]:
    """The ops that were there before and went, in order."""
    mutations = list(mutations)
    own = {move.op for move in mutations if move.node_delta > 0}
    return [move.op for move in mutations if move.op is not None and move.node_delta < 0 and move.op not in own]
