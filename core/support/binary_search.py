"""Binary search for the first failure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence


def first_bad(good: int, bad: int, is_bad: Callable[[int], bool]) -> int:
    """The first bad number after `good`, known to be good, up to `bad`, known to be bad, in O(log(bad - good)) calls.

    If good and bad numbers alternate, this is a bad number whose predecessor is good.
    """
    return good + 1 + bisect_left(range(good + 1, bad), True, key=is_bad)


def first_bad_at(likely: Sequence[int], good: int, bad: int, is_bad: Callable[[int], bool]) -> int:
    """Like `first_bad`, but the ascending numbers in `likely` are tried first, in O(log(their count)) calls.

    If the first bad number is not among them, it is searched between the last good and the first bad one.
    """
    tried = [n for n in likely if good < n < bad]
    at = bisect_left(tried, True, key=is_bad)
    return first_bad(tried[at - 1] if at else good, tried[at] if at < len(tried) else bad, is_bad)
