"""Time for runs of a model: budgets of seconds, and predictions of the cost of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from time import monotonic

from .dim_expressions import Sizes

GROWING_SHARE = 0.001  # of the time of the fastest run
MEASUREMENT_NOISE = 0.002  # CPU seconds by which runs of one size may differ


@dataclass(slots=True)
class TimeBudget:
    """Seconds from now on, by a `clock`."""

    seconds: float
    clock: Callable[[], float] = monotonic
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.clock()

    def left(self) -> float:
        """The seconds left."""
        return self.seconds - (self.clock() - self.start)


@dataclass(slots=True)
class SizeCosts:
    """CPU seconds of runs by the product of the sizes, with which a small part of the time of small runs grows."""

    known: dict[int, float] = field(default_factory=dict[int, float])

    def add(self, sizes: Sizes, seconds: float) -> None:
        """Record a run."""
        total = prod(sizes.values())
        self.known[total] = min(seconds, self.known.get(total, seconds))

    def predicted(self, sizes: Sizes) -> float:
        """The seconds of a run at other sizes, which grow with their square if they grow; 0 with nothing recorded."""
        total = prod(sizes.values())
        below = max((known for known in self.known if known <= total), default=None)
        if below is None:
            return 0.0
        least = min(self.known.values())
        growth = self.known[below] - least
        growth_factor = total / max(below, 1)
        if growth > MEASUREMENT_NOISE:
            return least + growth * growth_factor**2
        return least + GROWING_SHARE * self.known[below] * growth_factor
