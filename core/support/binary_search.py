"""Binary search for the first failure."""

from __future__ import annotations

from collections.abc import Callable


def first_bad(good: int, bad: int, is_bad: Callable[[int], bool]) -> int:
    """The first bad number after `good`, known to be good, up to `bad`, known to be bad, in O(log(bad - good)) calls.

    Where good and bad numbers alternate, a bad number whose predecessor is good.
    """
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_bad(middle):
            bad = middle
        else:
            good = middle
    return bad
