"""Confidence intervals of means, medians and ratios."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import comb

from msgspec import Struct

# The 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom; the last one is used for all higher ones.
STUDENT_T_QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
)  # fmt: skip
NORMAL_QUANTILE = 1.96
SIGNIFICANCE = 0.05
NEGLIGIBLE = 0.1  # largest difference from 1 of an interval that shows that there is no relevant difference
AS_FAST = 1.05  # ratio of times up to which a time is not considered longer: intervals are wide on busy machines


class RatioInterval(Struct, frozen=True):
    """A ratio and its 95 % confidence interval.

    `inconclusive` says why the measurement decides nothing, "" if it does; such an interval contains 1.
    """

    ratio: float
    low: float
    high: float
    inconclusive: str = ""

    @property
    def is_significant(self) -> bool:
        """Whether a difference was measured: the interval does not contain 1."""
        return not self.low <= 1.0 <= self.high

    @property
    def is_alike(self) -> bool:
        """Whether no difference was measured, in an interval that is narrow enough to conclude that there is none."""
        is_short = self.low >= 1 - NEGLIGIBLE and self.high <= 1 + NEGLIGIBLE
        return is_short and not self.is_significant and not self.inconclusive

    @property
    def is_slower(self) -> bool:
        """Whether a time is considered longer: outside its interval, or by more than AS_FAST if that is wide.

        An inconclusive ratio is never slower.
        """
        return self.low > 1 or (self.ratio > AS_FAST and not self.inconclusive)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of two or more numbers, and the bounds of its interval."""
    from statistics import fmean, stdev  # noqa: PLC0415 - imports fractions and decimal

    middle = fmean(values)
    reach = student_t(len(values) - 1) * stdev(values) / len(values) ** 0.5
    return middle, middle - reach, middle + reach


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """A distribution-free interval of the median, by order statistics; the extremes of fewer than six numbers."""
    ordered, n = sorted(values), len(values)
    tails = accumulate(comb(n, k) / 2**n for k in range(n // 2))
    at = max(sum(2 * tail <= SIGNIFICANCE for tail in tails) - 1, 0)
    return ordered[at], ordered[n - 1 - at]


def share_interval(count: int, total: int) -> tuple[float, float]:
    """The ends of the interval of a share, of which `count` of `total` were seen, by Wilson."""
    square = NORMAL_QUANTILE**2
    middle = (count + square / 2) / (total + square)
    reach = NORMAL_QUANTILE / (total + square) * (count * (total - count) / total + square / 4) ** 0.5
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def student_t(freedom: int) -> float:
    """The 97.5 % quantile for so many degrees of freedom."""
    return STUDENT_T_QUANTILES[min(freedom, len(STUDENT_T_QUANTILES)) - 1]
