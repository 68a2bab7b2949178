"""How many models may be in memory at once.

Entrants taking turns: in each round each runs a block of calls, in an order that chance decides.

Several models measured side by side: each in a process of its own, taking turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import psutil

from ...core.ort.sessions import Setting
from .confidence_intervals import median_bounds, ratio
from .metrics import Interval, Latency, Measured
from .worker_proxy import LIMIT, Entrant, Withdrawn, write_feeds

SHARE = 0.5  # of the memory that is available: what larger batches take is not known before they run


def groups(needs: Sequence[int], room: int, baseline: int) -> Iterator[list[int]]:
    """Places of models in groups whose needs have room together, each with that of the `baseline`."""
    group, taken = [baseline], needs[baseline]
    for place, need in enumerate(needs):
        if place == baseline:
            continue
        if len(group) > 1 and taken + need > room:
            yield sorted(group)
            group, taken = [baseline], needs[baseline]
        group.append(place)
        taken += need
    yield sorted(group)


def room() -> int:
    """Bytes that models may take together."""
    return int(psutil.virtual_memory().available * SHARE)


BLOCK = 0.025  # seconds of the calls in a block: many rounds, and switching from process to process does not weigh
MOST_CALLS = 1000  # in a block
LEAST_ROUNDS = 5  # of a set, for calls that do not take long
FEWEST_ROUNDS = 2  # of a set, however long they take
PATIENCE = 4.0  # times the seconds asked for, after which the fewest rounds are enough


class Runner(Protocol):
    """What turns are given to."""

    def warm(self, batch: int) -> float:
        """The seconds of a call, warm."""
        ...

    def block(self, batch: int, calls: int, seconds: float) -> list[float]:
        """The seconds of each of so many calls, of about `seconds`."""
        ...


@dataclass(slots=True)
class Times:
    """Seconds of all calls of one entrant, and the median of each round."""

    calls: list[float] = field(default_factory=list[float])
    rounds: list[float] = field(default_factory=list[float])

    def add(self, block: list[float]) -> None:
        """Note a round."""
        self.calls += block
        self.rounds.append(median(block))


def take_turns(
    runners: Mapping[int, Runner],
    batch: int,
    seconds: float,
    random: Random,
    attempt: Callable[[int, Callable[[], object]], bool],
) -> dict[int, Times]:
    """Times by place of a runner, until each has run for `seconds`, in two rounds or more.

    `attempt` makes a call for a place, and says whether that one is still in the race.
    """
    pace: dict[int, float] = {}
    times = {place: Times() for place in runners}

    def warm(place: int) -> None:
        pace[place] = max(runners[place].warm(batch), 1e-7)

    left = [place for place in runners if attempt(place, lambda place=place: warm(place))]
    block = min(BLOCK, seconds / LEAST_ROUNDS)

    def turn(place: int) -> None:
        calls = max(1, min(MOST_CALLS, round(block / pace[place])))
        times[place].add(runners[place].block(batch, calls, pace[place]))

    rounds = 0
    while left and not _is_enough([sum(times[p].calls) for p in left], rounds, seconds):
        random.shuffle(left)
        left = [place for place in left if attempt(place, lambda place=place: turn(place))]
        rounds += 1
    return {place: times[place] for place in left}


def _is_enough(spent: list[float], rounds: int, seconds: float) -> bool:
    if rounds >= LEAST_ROUNDS and min(spent) >= seconds:
        return True
    return rounds >= FEWEST_ROUNDS and max(spent) >= PATIENCE * seconds and min(spent) >= seconds


@dataclass(frozen=True, slots=True)
class Entry:
    """A model's file, how onnxruntime is to treat it, and `feeds` of its own, by batch size, instead of everybody's."""

    model: Path
    setting: Setting
    feeds: Mapping[int, Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: `min_time` seconds of calls an entry, in `sets` of fresh processes, in turns at random.

    No answer of a process is waited for longer than `limit` seconds.
    """

    min_time: float = 2.0
    sets: int = 5
    seed: int = 0
    limit: float = LIMIT


def race(
    entries: Sequence[Entry],
    feeds: Mapping[int, Mapping[str, Any]],
    effort: Effort,
    progress: Callable[[str], None] = lambda _: None,
    baseline: int = 0,
) -> list[Measured]:
    """Measure all entries with the same `feeds` (arrays by name, by batch size), in turns; a figure for each entry.

    A process for each entry alone comes first: it tells of memory and of providers, and whether there is anything to
    measure. Where all do not fit into memory together, they run in groups, each with the `baseline`. Raises
    Unverifiable for feeds that cannot be handed to a process.
    """
    with TemporaryDirectory() as folder:
        shared = _written(feeds, Path(folder) / "feeds")
        places = [
            shared if entry.feeds is None else _written(entry.feeds, Path(folder) / f"feeds-{i}")
            for i, entry in enumerate(entries)
        ]
        course = _Course(list(entries), places, effort, Path(folder), progress)
        for place in range(len(entries)):
            course.scout(place)
        fit = [place for place in range(len(entries)) if not course.failures.get(place)]
        if fit:
            needs = [course.scouted[place]["peak"] for place in fit]
            first = fit.index(baseline) if baseline in fit else 0
            for group in groups(needs, room(), first):
                course.run([fit[i] for i in group])
        return [course.measured(place) for place in range(len(entries))]


def _written(feeds: Mapping[int, Mapping[str, Any]], folder: Path) -> dict[int, Path]:
    folder.mkdir()
    places = {batch: folder / str(batch) for batch in feeds}
    for batch, place in places.items():
        write_feeds(feeds[batch], place)
    return places


def compared(a: Latency, b: Latency) -> Interval:
    """The time of `a` as a share of that of `b`, which ran beside it in the same rounds."""
    return ratio(a, b)


@dataclass(slots=True)
class _Course:
    """What is known of each entry so far, by its place."""

    entries: list[Entry]
    feeds: list[dict[int, Path]]
    effort: Effort
    folder: Path
    progress: Callable[[str], None]
    failures: dict[int, str] = field(default_factory=dict[int, str])
    scouted: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    providers: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])
    creations: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    times: dict[int, list[dict[int, Times]]] = field(default_factory=dict[int, list[dict[int, Times]]])
    started: int = 0

    def scout(self, place: int) -> None:
        """One process of an entry alone."""
        self.progress(f"loading {self.entries[place].model.name}")
        entrant = self._entrant(place)
        with ExitStack() as ending:
            ending.callback(entrant.end)
            self._attempt(place, lambda: self.scouted.update({place: self._load(place, entrant)}))
            if place not in self.failures:
                first = next(iter(self.feeds[place].values()))
                self._attempt(place, lambda: self.providers.update({place: entrant.assigned(first)}))

    def run(self, places: Sequence[int]) -> None:
        """All sets of processes of some entries, which take turns."""
        for number in range(self.effort.sets):
            self.progress(f"measuring, set {number + 1} of {self.effort.sets}")
            for batches in self.times.values():
                batches.append({})  # empty for those that this set is without
            for place in places:
                self.times.setdefault(place, [{} for _ in range(self._sets())])
            self._run_set([p for p in places if p not in self.failures], number)

    def _sets(self) -> int:
        return max((len(sets) for sets in self.times.values()), default=1)

    def _run_set(self, places: Sequence[int], number: int) -> None:
        random = Random(f"{self.effort.seed}:{number}")  # noqa: S311 - an order, no secret
        with ExitStack() as ending:
            entrants = {place: self._entrant(place) for place in places}
            for entrant in entrants.values():
                ending.callback(entrant.end)
            for place, entrant in entrants.items():
                self._attempt(place, lambda p=place, e=entrant: self._load(p, e))
            for batch in sorted({batch for place in places for batch in self.feeds[place]}):
                runners = {p: e for p, e in entrants.items() if p not in self.failures and batch in self.feeds[p]}
                found = take_turns(runners, batch, self.effort.min_time / self.effort.sets, random, self._attempt)
                for place, times in found.items():
                    self.times[place][-1][batch] = times

    def measured(self, place: int) -> Measured:
        """The figures of an entry."""
        if place in self.failures:
            return Measured(failure=self.failures[place])
        told = self.scouted[place]
        return Measured(
            creation=median(self.creations[place]),
            resident=told["resident"],
            peak=told["peak"],
            base=told["base"],
            providers=self.providers[place],
            latencies={batch: latency(batch, [s.get(batch) for s in self.times[place]]) for batch in self.feeds[place]},
            threads=told["threads"],
        )

    def _entrant(self, place: int) -> Entrant:
        self.started += 1
        return Entrant(self.folder / f"{place}-{self.started}", self.effort.limit)

    def _load(self, place: int, entrant: Entrant) -> dict[str, Any]:
        entry = self.entries[place]
        told = entrant.load(entry.model, entry.setting, self.feeds[place])
        self.creations.setdefault(place, []).append(told["creation"])
        return told

    def _attempt(self, place: int, call: Callable[[], object]) -> bool:
        try:
            call()
        except Withdrawn as e:
            self.failures[place] = str(e)
            return False
        return True


def latency(batch: int, sets: Sequence[Times | None]) -> Latency:
    """The figures of all calls with a batch, of sets of which an entry may be missing in some."""
    calls = sorted(t for s in sets if s is not None for t in s.calls)
    rounds = tuple(tuple(s.rounds) if s is not None else () for s in sets)
    low, high = median_bounds(rounds)
    return Latency(batch, len(calls), median(calls), low, high, _share(calls, 0.95), _share(calls, 0.99), rounds)


def _share(ordered: Sequence[float], share: float) -> float:
    """The least of the numbers that so large a share of them does not exceed."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
