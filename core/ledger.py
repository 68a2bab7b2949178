"""The ledger: every change that a run makes, numbered, so that a run can be replayed with some left out.

Passes are deterministic. Running them again on the same model with the same ledger settings makes the same
changes with the same ordinals; forbidding one, or stopping after the n-th, undoes without any undo log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from .ir.values import Op, Value

Key = tuple[str, str]
"""Who makes a change (a rule or pass) and where (a value that outlives it)."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was made: `ordinal` counts from 0 over the whole run."""

    ordinal: int
    pass_name: str
    by: str
    place: str
    replaced: tuple[str, ...]
    exact: bool


@dataclass(slots=True)
class Ledger:
    """Numbers the changes of one run and says which of them may be made.

    `limit`: only changes with an ordinal below it are made. `forbidden`: from that ordinal on, the
    rule or pass makes no change at that place. `exact_only`: rules that round are refused. `record`: keep
    each change in `changes`, not just their `counts` by pass and rule.
    """

    limit: int | None = None
    forbidden: dict[Key, int] = field(default_factory=dict[Key, int])
    exact_only: bool = False
    record: bool = False
    made: int = 0
    is_exact: bool = True  # whether every change so far keeps results bit for bit
    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    changes: list[Change] = field(default_factory=list[Change])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _running: list[str] = field(default_factory=list[str])
    _inner: list[float] = field(default_factory=list[float])

    def permits(self, by: str, place: str, replaced: Iterable[Op | Value] = (), *, exact: bool = True) -> bool:
        """Ask before making a change, naming who makes it, where, and what goes; a yes counts it."""
        ordinal = self.made
        if self.limit is not None and ordinal >= self.limit:
            return False
        if ordinal >= self.forbidden.get((by, place), ordinal + 1) or (self.exact_only and not exact):
            return False
        running = self._running[-1] if self._running else by
        self.made += 1
        self.is_exact &= exact
        self.counts.setdefault(running, Counter())[by] += 1
        if self.record:
            names = tuple(x.label if isinstance(x, Op) else x.name for x in replaced)
            self.changes.append(Change(ordinal, running, by, place, names, exact))
        return True

    @contextmanager
    def running(self, name: str) -> Generator[None]:
        """Count time and changes for the pass `name`; passes inside it count for themselves."""
        self._running.append(name)
        self._inner.append(0.0)
        start = perf_counter()
        try:
            yield
        finally:
            took = perf_counter() - start
            self._running.pop()
            self.seconds[name] = self.seconds.get(name, 0.0) + took - self._inner.pop()
            if self._inner:
                self._inner[-1] += took
