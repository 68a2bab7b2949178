"""The ledger: every change that a run makes, numbered, so that a run can be replayed with some left out.

Passes are deterministic. Running them again on the same model with the same ledger settings makes the same
changes with the same ordinals; forbidding one, or stopping before the n-th, undoes without any undo log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from ..errors import NoFixpoint
from ..ir.op import Op
from ..ir.values import Value
from .changes import Change, Key
from .observer import Watch
from .size_accounting import Scales


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a replay ends early: nothing that comes later is run.

    `before`: when the change with that ordinal is asked for. `after`: as soon as so many changes are made.
    `runs`: after so many runs of single passes.
    """

    before: int | None = None
    after: int | None = None
    runs: int | None = None


TO_THE_END = Stop()


@dataclass(slots=True)
class Bans:
    """What is left out of a run: changes, from an ordinal on, and whole passes and rules, which may share a name.

    `silent` are the passes known to change graphs without asking; each run of theirs is one change.
    """

    changes: dict[Key, int] = field(default_factory=dict[Key, int])
    passes: set[str] = field(default_factory=set[str])
    rules: set[str] = field(default_factory=set[str])
    silent: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Ledger:
    """Numbers the changes of one run and says which of them may be made.

    `exact_only`: what rounds is refused. `record`: keep each change in `changes`, not just their `counts`
    by pass and rule. `careful`: graphs are checked after each pass. `scales`: each change that is kept is weighed.
    """

    exact_only: bool = False
    record: bool = False
    bans: Bans = field(default_factory=Bans)
    stop: Stop = TO_THE_END
    careful: bool = False
    scales: Scales | None = None
    made: int = 0
    ran: list[str] = field(default_factory=list[str])  # the single passes that ran, in order
    is_exact: bool = True  # whether every change so far keeps results bit for bit
    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    changes: list[Change] = field(default_factory=list[Change])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _stopped: bool = False
    _most: int | None = None  # changes that the running pass may come to
    _running: list[str] = field(default_factory=list[str])
    _inner: list[float] = field(default_factory=list[float])

    @property
    def stopped(self) -> bool:
        """Whether the end of a replay is reached."""
        return self._stopped or self.made == self.stop.after or len(self.ran) == self.stop.runs

    @property
    def looked_on(self) -> float:
        """The seconds that a witness took."""
        return self.watch.seconds if self.watch is not None else 0.0

    @property
    def watch(self) -> Watch | None:
        """Someone looks on."""
        return self.scales.watch if self.scales is not None else None

    def allows(self, by: str, place: str, *, exact: bool = True) -> bool:
        """Whether a change may be made; does not count it. What is built from here on is part of it."""
        self.begin(by, place)
        return self._allows(by, place, exact=exact)

    def begin(self, by: str, place: str) -> None:
        """Note who is about to make a change, if it is to be weighed."""
        if self.scales is not None:
            self.scales.begin((by, place))

    def _allows(self, by: str, place: str, *, exact: bool) -> bool:
        if self.made == self.stop.before:
            self._stopped = True
        if self.stopped or by in self.bans.rules or (self.exact_only and not exact):
            return False
        return self.made < self.bans.changes.get((by, place), self.made + 1)

    def permits(self, by: str, place: str, replaced: Iterable[Op | Value] = (), *, exact: bool = True) -> bool:
        """Ask before making a change, naming who makes it, where, and what goes; a yes counts it."""
        place = str(place)  # an op or value will do
        if not self._allows(by, place, exact=exact):
            return False
        running = self._running[-1] if self._running else by
        if self.made == self._most:
            raise NoFixpoint(f"{running}: {self.counts[running].total()} changes, and no end")
        self.is_exact &= exact
        self.counts.setdefault(running, Counter())[by] += 1
        if self.record:
            self._keep(running, (by, place), tuple(replaced), exact=exact)
        self.made += 1
        return True

    def _keep(self, pass_name: str, key: Key, replaced: tuple[Op | Value, ...], *, exact: bool) -> None:
        names = tuple(x.label if isinstance(x, Op) else x.name for x in replaced)
        change = Change(self.made, pass_name, *key, names, exact)
        if self.scales is not None:
            self.scales.book(self.changes, key)
            self.scales.name(change, replaced)
        self.changes.append(change)

    def close(self) -> None:
        """The run is over: weigh what has moved since the last change."""
        if self.scales is not None:
            self.scales.book(self.changes)

    @contextmanager
    def running(self, name: str, most: int | None = None) -> Generator[None]:
        """Count time and changes for the pass `name`; passes inside it count for themselves.

        What a witness takes to look on is not counted. Raises NoFixpoint when it asks for more than `most` changes.
        """
        self._running.append(name)
        self._inner.append(0.0)
        self._most = None if most is None else self.made + most
        start = perf_counter() - self.looked_on
        try:
            yield
        finally:
            took = perf_counter() - self.looked_on - start
            self._running.pop()
            self._most = None
            self.seconds[name] = self.seconds.get(name, 0.0) + took - self._inner.pop()
            if self._inner:
                self._inner[-1] += took
