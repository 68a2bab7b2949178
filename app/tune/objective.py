"""Objectives of a search: ratios of a figure of two measured models; less is better."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import UsageError
from ...core.support.confidence_intervals import RatioInterval
from ..measure.metrics import ModelMetrics, combined_ratio, peak_ratio

Goal = Literal["latency", "throughput", "memory", "size"]
Quantile = Literal["p50", "p99"]
GOALS: tuple[Goal, ...] = get_args(Goal)
QUANTILES: tuple[Quantile, ...] = get_args(Quantile)
LEAST_SETS = 3  # of processes, for an interval on which a decision is based
LOUD = 1.1  # ratio of a model to itself, from which a machine counts as busy


class Objective(Struct, frozen=True):
    """A figure to minimize: the time of a call, the time for a sample, peak memory, or bytes of the file."""

    goal: Goal = "latency"
    quantile: Quantile = "p50"

    @classmethod
    def of(cls, goal: str, quantile: str) -> Objective:
        """The objective with these names. Raises UsageError."""
        found = [cls(g, q) for g in GOALS for q in QUANTILES if (g, q) == (goal, quantile)]
        for option, value, known in (("--goal", goal, GOALS), ("--quantile", quantile, QUANTILES)):
            if value not in known:
                raise UsageError(f"{option} {value}: choose from {', '.join(known)}")
        if quantile != "p50" and goal != "latency":
            raise UsageError(f"--quantile {quantile} is for --goal latency")
        return found[0]

    @property
    def figure(self) -> str:
        """The figure in words."""
        words = {"throughput": "time for a sample", "memory": "peak memory", "size": "bytes"}
        return words.get(self.goal, f"{self.quantile} latency")

    @property
    def is_time(self) -> bool:
        """Whether the figure is a time, which no other race needs to measure."""
        return self.goal in {"latency", "throughput"}

    def time_ratio(self, a: ModelMetrics, b: ModelMetrics) -> RatioInterval | None:
        """The time of `a` divided by the time of `b`, over all sizes; None if they were not measured together."""
        return combined_ratio(a, b, tail=self.quantile == "p99")

    def ratio(self, a: tuple[ModelMetrics, int], b: tuple[ModelMetrics, int]) -> RatioInterval | None:
        """The figure of `a` divided by the figure of `b`, each with its bytes; None if not measured."""
        if self.goal == "size":
            share = a[1] / b[1]
            return RatioInterval(share, share, share)
        return peak_ratio(a[0], b[0]) if self.goal == "memory" else self.time_ratio(a[0], b[0])


def inverse(ratio: RatioInterval) -> RatioInterval:
    """The inverse ratio."""
    return RatioInterval(1 / ratio.ratio, 1 / ratio.high, 1 / ratio.low, ratio.inconclusive)


def noise(control: RatioInterval | None, sets: int) -> float:
    """The factor by which a model differs from itself, up to the far end of the interval; 1 if there is no difference.

    A wide interval that contains 1 also counts. With fewer sets than LEAST_SETS, the noise is unknown.
    """
    if control is None or sets < LEAST_SETS:
        return 1.0
    reach = max(control.high, 1 / control.low)
    return reach if control.is_significant or reach > LOUD else 1.0


def widened(ratio: RatioInterval, factor: float) -> RatioInterval:
    """The interval widened by a factor at both ends; an exact ratio is unchanged."""
    if ratio.low == ratio.high:
        return ratio
    return replace(ratio, low=ratio.low / factor, high=ratio.high * factor)
