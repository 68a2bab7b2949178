"""Binary search for the first failure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable


def first_bad(good: int, bad: int, is_bad: Callable[[int], bool]) -> int:
    """The first bad number after `good`, known to be good, up to `bad`, known to be bad, in O(log(bad - good)) calls.

    Where good and bad numbers alternate, a bad number whose predecessor is good.
    """
    return good + 1 + bisect_left(range(good + 1, bad), True, key=is_bad)
