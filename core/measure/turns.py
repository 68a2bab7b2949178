"""Entrants taking turns: in each round each runs a block of calls, in an order that chance decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Protocol

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
